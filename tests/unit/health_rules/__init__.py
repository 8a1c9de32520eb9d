"""What the rules make of samples, kernel lines and node facts."""

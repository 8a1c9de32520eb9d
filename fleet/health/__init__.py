"""What is wrong: signals, rules, verdicts, incidents. Never acts upon it."""

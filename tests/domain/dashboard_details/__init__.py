"""The pages about one thing, against a real database."""

"""Joined reads for pages and the API. Writes nothing."""

"""Gangs in rows."""

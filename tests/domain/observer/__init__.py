"""Tests of fleet.observer against a real PostgreSQL."""

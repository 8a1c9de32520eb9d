"""Tests of fleet.health against a real PostgreSQL."""

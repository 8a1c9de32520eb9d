"""Tests of fleet.inventory against a real PostgreSQL."""

"""The guards, which are pure."""

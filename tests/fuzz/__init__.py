"""Hostile input: one harness for each parser of outside bytes, run by atheris (`make fuzz`) and by the unit tests."""

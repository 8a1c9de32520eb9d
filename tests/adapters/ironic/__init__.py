"""Ironic as a provisioner."""

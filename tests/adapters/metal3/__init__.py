"""Metal3 as a provisioner."""

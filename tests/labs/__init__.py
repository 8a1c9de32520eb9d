"""A whole Muster beside a whole simulated fleet, as people start it, and broken on purpose."""

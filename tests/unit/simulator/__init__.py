"""The simulated fleet, over its own HTTP."""

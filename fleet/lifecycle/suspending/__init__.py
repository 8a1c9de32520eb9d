"""Jobs that are suspended instead of evicted pod by pod, and started again when their nodes are out of the way."""

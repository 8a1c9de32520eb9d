"""What exists: clusters, pools, nodes, aliases, devices, BMCs. Never what is wrong with it or what is done to it."""

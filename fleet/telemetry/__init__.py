"""What is measured: wire formats, sources, the frame, history. Never judges a value."""

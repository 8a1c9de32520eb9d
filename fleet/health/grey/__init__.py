"""Grey failures: parts that work, but not as well as their peers. Pure: numpy and the frame, no Django."""

"""Rivals of the simulator, written with the same care: what `jaxvar bench` times beside it."""

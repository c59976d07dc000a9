"""Usage: what clients used, counted in the log, and written to the usage topic."""

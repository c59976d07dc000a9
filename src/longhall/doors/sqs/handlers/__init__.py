"""One file an action: the dialect, and one call to the broker."""

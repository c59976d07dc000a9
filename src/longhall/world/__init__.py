"""The platform interfaces: time, disk, network and randomness, so that the simulation can replace them."""

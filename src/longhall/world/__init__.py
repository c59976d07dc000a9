"""The seam between Longhall and everything that can surprise it: time, disk, network, randomness."""

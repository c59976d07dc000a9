"""Faults on real processes, again and again, and what must still be true afterwards."""

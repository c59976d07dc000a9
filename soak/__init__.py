"""Faults on real processes, repeatedly, and the checks of what must hold afterwards."""

"""Scenarios: the clients, the faults and the final checks of a run."""

"""Several nodes of one hall in one simulation: the simulated cluster, its faults and the oracle of its log."""

"""Who belongs to a cluster: joining, liveness, elections, reassignment, recovery of the record."""

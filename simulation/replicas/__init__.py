"""Several members of one hall in one simulation: their log, without doors."""

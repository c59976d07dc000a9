"""Several nodes, one hall: who leads, what is copied to whom, and where a request has to go."""

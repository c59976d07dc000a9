"""Queues as the broker runs them: the pure machines of `queues` joined with logs, commits and time."""

"""Share groups on the cursors of queues: which cursor, what is acquired, and what is acknowledged."""

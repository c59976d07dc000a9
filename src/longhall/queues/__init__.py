"""Queues: cursors over logs, and everything that decides who gets which message when. Pure machines, no I/O."""

"""The load generator: a client in a process of its own, and its report."""

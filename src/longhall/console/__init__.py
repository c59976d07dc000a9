"""The HTTP port: is the node alive, is it ready, and what has it counted."""

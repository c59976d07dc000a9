"""One file an operation: from the wire to a verb of the broker and back, and no logic of its own."""

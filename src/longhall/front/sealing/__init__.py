"""Sealing: bodies and batches are encrypted before the broker gets them, and opened for clients that may read them."""

"""Measurements beside the client: processes and the disk."""

"""Sending to queues."""

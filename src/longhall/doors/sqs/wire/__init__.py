"""Bytes to requests and answers to bytes, in both protocols. Pure: no clock, no socket, no queue."""

"""Decoding of requests and encoding of responses, in both protocols. Pure: no clock, no socket, no queue."""

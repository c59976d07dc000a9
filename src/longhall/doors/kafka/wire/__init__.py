"""Kafka's protocol as bytes: pure codecs, no sockets, no state."""

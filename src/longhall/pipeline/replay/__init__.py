"""Replay of messages of an archive or a topic into any topic or queue: selected, paced, each exactly once."""

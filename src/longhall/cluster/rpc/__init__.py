"""Connections between processes: frames, mutual authentication, requests and streams."""

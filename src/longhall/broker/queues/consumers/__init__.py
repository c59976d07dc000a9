"""Push: consumers that are given messages as they arrive, within their credit."""

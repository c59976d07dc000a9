"""The doors into the hall, one a protocol."""

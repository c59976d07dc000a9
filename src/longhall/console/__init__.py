"""The HTTP port: liveness, readiness, metrics and the HTTP API."""

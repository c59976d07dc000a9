"""Request admission: limits, credentials and HTTP, before the broker sees a request."""

"""One file an operation: it translates a request into a call of the broker, and the result into a response."""

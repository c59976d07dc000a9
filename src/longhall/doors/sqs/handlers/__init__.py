"""One file for each action: translation of the request and the result, and one call to the service."""

"""The replicated sequence: what is decided is appended, applied at once, and released when it is committed."""

"""The replicated sequence: events are decided, appended, applied at once, and released when they are committed."""

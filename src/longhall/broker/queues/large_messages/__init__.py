"""Messages in parts: upload, reassembly, garbage collection."""

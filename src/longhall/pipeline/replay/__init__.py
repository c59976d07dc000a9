"""Messages of an archive or a topic again, into any topic or queue: chosen, paced, and each once."""

"""What is measured beside the client: processes and the disk."""

"""Creating, resizing, rewinding and measuring queues."""

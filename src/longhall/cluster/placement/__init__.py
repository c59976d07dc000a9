"""Which replication group stores which topic or queue, and how groups are created and found."""

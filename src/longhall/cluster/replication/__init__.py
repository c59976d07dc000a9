"""One replication group on one node: leader, follower, full sync, repair."""

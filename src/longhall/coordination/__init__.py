"""Cluster coordination: live members, the controller, and the leader and epoch of each shard."""

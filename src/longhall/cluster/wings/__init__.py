"""Wings: halls of their own beside the hall of a cluster, each with its log, its leader and its copies."""

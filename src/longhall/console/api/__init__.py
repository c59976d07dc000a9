"""The HTTP/JSON API: all operations on queues and on the cluster, for people, scripts and the command line."""

"""The HTTP/JSON API of queues: whatever a queue can do, for people, scripts and the command line."""

"""What stands over the logs: producers, consumer groups and transactions.

Everything here is a pure machine: requests and the time come in, events and replies go out. It knows nothing of
sockets, files or tasks; ids that must be fresh are arguments.
"""

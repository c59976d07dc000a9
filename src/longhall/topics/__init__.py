"""State machines over the logs: producers, consumer groups and transactions.

All of them are pure: requests and the time come in, events and replies go out. They know nothing of sockets, files or
tasks; new ids are arguments.
"""

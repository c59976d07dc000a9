"""The brokers that are measured.

A peer is a context manager: entering starts one node on loopback in a directory of its own, leaving stops it and
removes what it made. The bench knows nothing of a broker beyond `node.Node`: an address for clients and a process to
weigh.
"""

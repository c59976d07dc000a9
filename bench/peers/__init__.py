"""The brokers that are measured.

A peer is a context manager: entering starts one node on loopback in a directory of its own, leaving stops it and
removes its files. The bench uses only `node.Node`: an address for clients and a process to measure.
"""

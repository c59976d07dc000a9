"""One peer in the foreground: it prints its address and runs until it is interrupted."""

from __future__ import annotations

import signal
from collections.abc import Callable
from threading import Event

from bench.peers.node import Node


def stand(peer: Callable[[], Node]) -> None:
    over = Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: over.set())
    with peer() as node:
        print(node.address, flush=True)
        over.wait()

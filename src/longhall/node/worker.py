"""One worker of `serve --workers N`, as the parent starts it: its orders come first on standard input.

The parent keeps the other end of that pipe open for as long as it lives. When it is gone, however it went, the pipe
ends, and so does the worker: nobody is left behind.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Callable
from typing import Final

import msgspec

from longhall.node.settings import Settings
from longhall.node.start_parameters import read_start_parameters

LEADER: Final = 1  # The worker that has the data directory.
PROGRAM: Final = "longhall.node.worker"


class Orders(msgspec.Struct, kw_only=True, frozen=True):
    """What a worker is told."""

    number: int  # From 1 on; its number as a Kafka broker.
    count: int
    settings: Settings  # Its own: the addresses in them are those of this worker.
    keeper_port: int  # Where the parent's tree is,
    token: str  # and what opens it, in hexadecimal digits; workers know each other by it as well.
    shared_ports: list[int]  # Where all of them listen.

    @property
    def leads(self) -> bool:
        return self.number == LEADER


def watch_parent(loop: asyncio.AbstractEventLoop, gone: Callable[[], None]) -> None:
    """Call when the parent is gone. It says nothing more, so whatever is there to read is the end."""
    descriptor = sys.stdin.fileno()

    def ended() -> None:
        loop.remove_reader(descriptor)
        gone()

    loop.add_reader(descriptor, ended)


def main() -> int:
    """Work until the parent says that it is enough, or is gone."""
    from longhall.node.lifecycle import run

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # One at the terminal is for the parent, who stops us in order.
    orders = read_start_parameters(Orders, "`longhall serve --workers`")
    return run(orders.settings, orders)


if __name__ == "__main__":
    sys.exit(main())

"""One worker of `serve --workers N`. The parent starts it and writes its orders to its standard input.

The parent holds the other end of that pipe open while it lives. When the parent ends, for whatever reason, the pipe
ends, and the worker ends too.
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

LEADER: Final = 1  # The worker that owns the data directory.
PROGRAM: Final = "longhall.node.worker"


class Orders(msgspec.Struct, kw_only=True, frozen=True):
    """The start parameters of a worker."""

    number: int  # From 1 on; its number as a Kafka broker.
    count: int
    settings: Settings  # With the addresses of this worker.
    keeper_port: int  # The port of the parent's coordination tree,
    token: str  # and the token for it, in hexadecimal digits; workers authenticate to each other with it too.
    shared_ports: list[int]  # The ports that all workers listen on.

    @property
    def leads(self) -> bool:
        return self.number == LEADER


def watch_parent(loop: asyncio.AbstractEventLoop, gone: Callable[[], None]) -> None:
    """Call `gone` when the parent has ended. The parent writes nothing more, so a readable pipe means its end."""
    descriptor = sys.stdin.fileno()

    def ended() -> None:
        loop.remove_reader(descriptor)
        gone()

    loop.add_reader(descriptor, ended)


def main() -> int:
    """Run the worker until the parent stops it or ends."""
    from longhall.node.lifecycle import run

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # An interrupt at the terminal is for the parent.
    orders = read_start_parameters(Orders, "`longhall serve --workers`")
    return run(orders.settings, orders)


if __name__ == "__main__":
    sys.exit(main())

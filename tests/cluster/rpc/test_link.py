"""A connection between two nodes, on real sockets: that it was cut is noticed by the system."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
import uvloop

from longhall.cluster.rpc.link import UNHEARD_MS_MAX, Link
from longhall.world.real.network import RealNetwork


def _heard(kind: int, body: bytes) -> None:
    """Nobody says anything here."""


@pytest.mark.parametrize("runner", [asyncio.run, uvloop.run])
def test_both_sides_give_up_what_does_not_arrive(runner: Callable[[Coroutine[Any, Any, None]], None]) -> None:
    async def scenario() -> None:
        made: asyncio.Queue[Link] = asyncio.Queue()
        network = RealNetwork()
        listener, port = await network.listen(lambda: Link(_heard, made.put_nowait), "127.0.0.1", 0)
        await network.connect(lambda: Link(_heard, made.put_nowait), "127.0.0.1", port)
        for link in (await made.get(), await made.get()):
            assert link._transport is not None
            plug = link._transport.get_extra_info("socket")
            assert plug.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == UNHEARD_MS_MAX
            link.abort("the end")
        listener.close()

    runner(scenario())

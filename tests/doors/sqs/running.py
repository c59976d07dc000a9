"""A door on a port of its own, in a loop on a thread of its own, so that clients that block can speak to it."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import uvloop

from longhall.doors.sqs.door import Door
from longhall.doors.sqs.server import SqsServer
from longhall.doors.sqs.signing import Verifier
from longhall.front.admission import Budget
from longhall.world.real.clock import RealClock
from longhall.world.real.entropy import RealEntropy
from longhall.world.real.network import RealNetwork
from tests.doors.sqs.fake_queues import FakeQueues


class Running:
    """What a test may touch. Look at `queues` only when nothing is under way."""

    def __init__(self, server: SqsServer, queues: FakeQueues, port: int, loop: asyncio.AbstractEventLoop) -> None:
        self.server = server
        self.queues = queues
        self.port = port
        self.loop = loop
        self.url = f"http://127.0.0.1:{port}"

    def until(self, condition: Callable[[], bool]) -> None:
        for _ in range(2_000):
            if condition():
                return
            time.sleep(0.005)
        raise AssertionError("it never came to pass")


@contextmanager
def running(
    verifier: Verifier | None = None, budget_bytes: int = 64 << 20, door: dict[str, Any] | None = None, **options: Any
) -> Iterator[Running]:
    opened: list[Running] = []
    ready = threading.Event()
    stop = asyncio.Event()

    async def main() -> None:
        queues = FakeQueues()
        server = SqsServer(
            Door(queues.service, **(door or {})), Budget(budget_bytes), RealClock(), RealEntropy(), verifier, **options
        )
        port = await server.open(RealNetwork(), "127.0.0.1", 0)
        opened.append(Running(server, queues, port, asyncio.get_running_loop()))
        ready.set()
        await stop.wait()
        server.stop_accepting()
        await server.drain(0.2)

    thread = threading.Thread(target=lambda: uvloop.run(main()), daemon=True)
    thread.start()
    assert ready.wait(20)
    try:
        yield opened[0]
    finally:
        opened[0].loop.call_soon_threadsafe(stop.set)
        thread.join(20)

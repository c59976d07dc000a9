"""Timers on the loop that serves: it has handles of its own, of two kinds."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, cast

import uvloop

from longhall.queues.messages import Outgoing
from longhall.queues.settings import QueueSettings
from longhall.world.real.world import real_world
from tests.broker.desk import Life
from tests.broker.queues.rig import Queues


def test_short_delays_and_lease_ends_are_detected(tmp_path: Path) -> None:
    async def play() -> None:
        world = real_world(str(tmp_path))
        queues = Queues(Life(cast(Any, world)))
        queues.desk.start()
        await queues.desk.create("q", QueueSettings())
        sends = [
            queues.desk.send("q", [Outgoing(body=b"%d" % number, delay_ms=1 + number % 3) for _ in range(10)])
            for number in range(30)
        ]
        await asyncio.gather(*sends)
        found = 0
        while found < 300:
            found += len(await queues.desk.receive("q", 10, 10_000, 20, ""))
        for _ in range(30):  # Every lease has ended, or will while somebody waits.
            again = await queues.desk.receive("q", 10, 10_000, 60_000, "")
            assert await queues.desk.settle("q", [one.receipt for one in again]) == [None] * len(again)
        await queues.desk.stop()
        await queues.life.sync()
        world.close()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(play())

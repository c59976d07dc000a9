"""Delays through the operations: due times before the sync, and crashes between the steps."""

from __future__ import annotations

import asyncio

import pytest

from longhall.broker.queues.service import QueueService as Queues
from longhall.queues.messages import Outgoing
from longhall.queues.settings import QueueSettings
from tests.broker.desk import Desk, Life


@pytest.mark.parametrize("count", [1, 20])
def test_a_delay_that_ends_before_the_sync_loses_nothing(count: int) -> None:
    desk = Desk()
    desk.host.faults.sync_ms = (300.0, 300.0)

    async def play(life: Life) -> None:
        queues = Queues(life.hall)
        queues.start()
        await queues.create("q", QueueSettings())
        messages = [Outgoing(body=b"%d" % at, delay_ms=50) for at in range(count)]
        assert all(sent.code is None for sent in await queues.send("q", messages))
        await asyncio.sleep(2.0)
        found = []
        while got := await queues.receive("q", 10, 0, 30_000, ""):
            found += [delivery.body for delivery in got]
        assert sorted(found) == sorted(message.body for message in messages)
        assert queues.depth("q").delayed == 0
        await queues.stop()

    desk.live(play)

"""A message delayed by months: through restarts and retention, at no cost in memory, and then on time."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from longhall.broker.checkpoint import checkpoint
from longhall.broker.log_cleaner import LogCleaner
from longhall.broker.queues.service import QueueService as Queues
from longhall.queues.messages import Outgoing
from longhall.queues.settings import QueueSettings
from tests.broker.desk import Desk, Life

DAY_S = 86_400
MONTHS_MS = 90 * DAY_S * 1000
SETTINGS = QueueSettings(retention_ms=4 * DAY_S * 1000, whole_bytes_max=1 << 30)


@pytest.mark.parametrize("body", [b"in three months", b"large" * 100_000])
def test_a_delay_of_three_months_ends_on_time(body: bytes) -> None:
    desk = Desk()
    sent: list[int] = []

    async def send(life: Life) -> None:
        queues = Queues(life.hall)
        await queues.create("q", SETTINGS)
        await queues.send("q", [Outgoing(body=body, delay_ms=MONTHS_MS), Outgoing(body=b"soon")])
        sent.append(life.hall.time.now_ms())

    async def wait(life: Life) -> None:
        """Ten days and a restart: other messages come and go, and retention removes old ones."""
        queues = Queues(life.hall)
        queues.stager.start()
        cleaner = LogCleaner(life.hall)
        for _ in range(5):
            await queues.send("q", [Outgoing(body=b"never received")])
            await asyncio.sleep(2 * DAY_S)
            await cleaner.run()
            await queues.sweeper.sweep()
            await checkpoint(life.hall)
        queue = life.hall.running_queue("q")
        assert queue is not None
        assert queue.staging.count == 1
        assert queue.staging.indexed == 0, "it is known to its slice and to nobody else"
        assert len(msgspec.msgpack.encode(queue.staging.snapshot())) < 200
        assert life.partition("q").log.start_offset > 0, "retention works, on what has begun to wait"
        await queues.stager.stop()

    async def receive(life: Life) -> None:
        queues = Queues(life.hall)
        queues.stager.start()
        await asyncio.sleep((sent[0] + MONTHS_MS - life.hall.time.now_ms()) / 1000 - 5)
        found = await queues.receive("q", 10, 0, 3_600_000, "")
        assert body not in [one.body for one in found]
        (due,) = await queues.receive("q", 10, 20_000, 3_600_000, "")
        late_ms = life.hall.time.now_ms() - due.sent_ms - MONTHS_MS
        assert due.body == body
        assert 0 <= late_ms < 50
        await queues.stager.stop()

    desk.live(send)
    for at in range(8):
        desk.live(wait, end="cut" if at % 2 else "kill")
    desk.live(receive)


def test_messages_due_while_the_node_was_down_are_delivered_at_once() -> None:
    desk = Desk()

    async def send(life: Life) -> None:
        queues = Queues(life.hall)
        await queues.create("q", SETTINGS)
        await queues.send("q", [Outgoing(body=b"late", delay_ms=MONTHS_MS)])

    async def pass_time(life: Life) -> None:
        await asyncio.sleep(100 * DAY_S)

    async def receive(life: Life) -> None:
        queues = Queues(life.hall)
        queues.stager.start()
        assert [one.body for one in await queues.receive("q", 10, 1000, 1000, "")] == [b"late"]
        await queues.stager.stop()

    desk.live(send)
    desk.live(pass_time)  # Nobody looks at delays in this life.
    desk.live(receive)

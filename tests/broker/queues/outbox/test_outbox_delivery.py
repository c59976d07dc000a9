"""An outbox survives restarts and checkpoints of its group, costs no memory, and is dropped when it is not used."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from longhall.broker.checkpoint import checkpoint
from longhall.broker.queues.outbox import outbox_delivery
from longhall.broker.queues.outbox.outbox_log import put, waiting
from longhall.broker.queues.service import QueueService
from longhall.broker.queues.write import together
from longhall.broker.waiting import committed
from longhall.errors import Code, LonghallError
from longhall.names import OUTBOX_SHARD
from longhall.queues.outbox_events import OutboxBatch, OutboxEntry, QueueLocation
from longhall.queues.settings import QueueSettings
from tests.broker.desk import OPTIONS, Desk, Life

WING = msgspec.structs.replace(OPTIONS, wing=3, segment_bytes=20_000, queue_segment_bytes=20_000)
TARGET = "elsewhere"


class Far:
    """Another group: it remembers what it got, and fails as told."""

    def __init__(self) -> None:
        self.got: dict[tuple[int, int], bytes] = {}
        self.calls = 0
        self.topic_id = b"first"
        self.room = 1 << 30
        self.fails_at = 0  # The call from which on replies are lost; 0: none.

    async def locate(self, name: str) -> QueueLocation:
        if not self.topic_id:
            raise LonghallError(Code.UNKNOWN_QUEUE)
        return QueueLocation(self.topic_id, 1000)

    async def deliver(self, name: str, topic_id: bytes, batch: OutboxBatch) -> int:
        await asyncio.sleep(0.01)
        assert name == TARGET
        if topic_id != self.topic_id:
            raise LonghallError(Code.UNKNOWN_QUEUE)
        self.calls += 1
        for offset, entry in batch.rows:
            if len(self.got) >= self.room:
                return offset
            body = self.got.setdefault((batch.stream, offset), entry.value or b"")
            assert body == entry.value, "an identity is never used for another message"
        if self.fails_at and self.calls >= self.fails_at:
            raise LonghallError(Code.TIMED_OUT, "the reply is lost")
        return batch.rows[-1][0] + 1

    async def check_room(self, name: str, count: int, size_bytes: int) -> None:
        raise AssertionError("nobody asks")


def write(life: Life, first: int, count: int, **more: Any) -> None:
    for number in range(first, first + count):
        entry = OutboxEntry(value=b"%d" % number, timestamp_ms=life.hall.time.now_ms(), **more)
        with together(life.hall):
            put(life.hall, TARGET, entry, life.hall.time.now_ms())


async def opened(life: Life, far: Far) -> QueueService:
    queues = QueueService(life.hall)
    queues.outbox.connect(far)
    queues.start()
    return queues


async def emptied(life: Life) -> None:
    for _ in range(2000):
        if all(not waiting(life.hall, outbox) for outbox in life.hall.outboxes.by_stream.values()):
            return
        await asyncio.sleep(0.1)
    raise AssertionError("messages still wait")


@pytest.mark.parametrize("end", ["kill", "cut"])
@pytest.mark.parametrize("with_checkpoint", [False, True])
def test_what_is_committed_is_delivered_once_through_restarts(end: str, with_checkpoint: bool) -> None:
    desk, far = Desk(options=WING), Far()
    far.fails_at = 3

    async def first(life: Life) -> None:
        await opened(life, far)
        write(life, 0, 500)
        await committed(life.hall, life.hall.shards[OUTBOX_SHARD])
        await asyncio.sleep(2)
        if with_checkpoint:
            await checkpoint(life.hall)

    async def second(life: Life) -> None:
        far.fails_at = 0
        write(life, 500, 10)
        queues = await opened(life, far)
        await emptied(life)
        assert queues.outbox.waiting == queues.outbox.oldest_age_ms == 0

    desk.live(first, end=end)
    assert 0 < len(far.got) < 500
    desk.live(second, end=end)
    assert sorted(far.got.values()) == sorted(b"%d" % number for number in range(510))
    assert [offset for _, offset in far.got] == list(range(510)), "in order"


def test_the_space_of_delivered_messages_is_freed_and_an_unused_outbox_is_dropped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(outbox_delivery, "SHORTEN_MAX", 1000)
    desk, far = Desk(options=WING), Far()

    async def play(life: Life) -> None:
        queues = await opened(life, far)
        write(life, 0, 3000)
        stream = life.hall.outboxes.by_target[TARGET].stream
        await emptied(life)
        await asyncio.sleep(1)
        assert life.hall.partitions[stream].log.start_offset == 3000
        queues.outbox.sweep()
        await asyncio.sleep(outbox_delivery.IDLE_MS / 1000 + 1)
        queues.outbox.sweep()
        assert not life.hall.outboxes.by_stream
        assert stream not in life.hall.partitions
        write(life, 3000, 1)
        assert life.hall.outboxes.by_target[TARGET].stream > stream
        await emptied(life)
        assert len(far.got) == 3001

    desk.live(play)


def test_reports_for_a_queue_that_is_gone_are_dropped_and_letters_wait() -> None:
    desk, far = Desk(options=WING), Far()
    far.topic_id = b""

    async def play(life: Life) -> None:
        queues = await opened(life, far)
        write(life, 0, 3)
        write(life, 3, 2, waits=True)
        await asyncio.sleep(20)
        assert (queues.outbox.dropped, queues.outbox.waiting) == (3, 2)
        assert queues.outbox.oldest_age_ms >= 15_000
        far.topic_id = b"new"
        await emptied(life)
        assert sorted(far.got.values()) == [b"3", b"4"]

    desk.live(play)


def test_a_failover_does_not_deliver_to_two_incarnations() -> None:
    desk, far = Desk(options=WING), Far()
    far.fails_at = 1

    async def first(life: Life) -> None:
        await opened(life, far)
        write(life, 0, 20, waits=True)
        await asyncio.sleep(1)

    async def second(life: Life) -> None:
        far.topic_id, far.fails_at, far.got = b"second", 0, {}
        queues = await opened(life, far)
        write(life, 20, 5, waits=True)
        await emptied(life)
        assert queues.outbox.dropped == 20
        assert sorted(far.got.values()) == sorted(b"%d" % number for number in range(20, 25))

    desk.live(first)
    assert len(far.got) == 20
    desk.live(second)


def test_a_target_knows_repeats_after_restarts_and_checkpoints() -> None:
    desk = Desk()
    rows = [(offset, OutboxEntry(value=b"%d" % offset)) for offset in range(10)]

    async def take(life: Life, batch: OutboxBatch) -> tuple[int, int]:
        queues = QueueService(life.hall)
        if life.hall.running_queue("q") is None:
            await queues.create("q", QueueSettings())
        queue = life.hall.running_queue("q")
        assert queue is not None
        reached = await queues.take_in("q", queue.entry.topic_id, batch)
        with pytest.raises(LonghallError) as caught:
            await queues.take_in("q", b"another", batch)
        assert caught.value.code is Code.UNKNOWN_QUEUE
        return reached, queue.available()

    async def and_checkpoint(life: Life) -> None:
        assert await take(life, OutboxBatch(3, 7, rows[:8])) == (8, 8)
        await checkpoint(life.hall)

    assert desk.live(lambda life: take(life, OutboxBatch(3, 7, rows[:5]))) == (5, 5)
    desk.live(and_checkpoint)
    assert desk.live(lambda life: take(life, OutboxBatch(3, 7, rows))) == (10, 10)
    assert desk.live(lambda life: take(life, OutboxBatch(3, 6, rows))) == (10, 10), "an earlier outbox of the group"
    assert desk.live(lambda life: take(life, OutboxBatch(3, 8, rows))) == (10, 20), "a later outbox of the group"
    assert desk.live(lambda life: take(life, OutboxBatch(4, 7, rows))) == (10, 30), "another group"

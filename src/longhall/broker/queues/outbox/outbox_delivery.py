"""The delivery of outboxes: a background task of the group's leader for each outbox with messages.

    locate     the hall is asked for the incarnation of the target
    aim        the source commits which messages may go to that incarnation
    deliver    a batch goes to the target's group, which stores it with its identity, or recognises it
    confirm    the next aim, or the end of the outbox, commits what is delivered

A step that fails is repeated after a pause: the target recognises repeats. Messages of one outbox go in order, one
batch at a time, so a target without room delays only its own outbox.

    the target                                  its messages
    is gone before they were aimed              delivery reports and answers are dropped and counted; others wait until
                                                a queue of this name exists again
    was replaced after they were aimed          those that may have reached the earlier queue went with it

Only committed messages are sent. This module does not know how the target's group is found: see `OutboxCarrier`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable
from functools import partial
from typing import Final, Protocol, final

from longhall.broker.background import cancel
from longhall.broker.hall import Hall
from longhall.broker.queues.outbox.arrival_waits import ArrivalWaits
from longhall.broker.queues.outbox.outbox_log import close, shorten, waiting, write_outbox
from longhall.broker.queues.outbox.outbox_reader import read_entries
from longhall.broker.queues.outbox.target_watch import TargetWatch
from longhall.broker.waiting import committed
from longhall.errors import Code, LonghallError
from longhall.names import OUTBOX_SHARD
from longhall.queues.outbox import Outbox, OutboxListener
from longhall.queues.outbox_events import OutboxBatch, OutboxEntry, QueueLocation

BATCH_MAX: Final = 100  # Messages of one call,
BATCH_BYTES_MAX: Final = 1024 * 1024  # and about so many bytes.
AIM_MAX: Final = 1_000  # Messages that one aim allows.
CALLS_MAX: Final = 64  # Concurrent deliveries of a group.
DIRECT_LOOK_S: Final = 0.01  # Between two looks whether a direct send to the target is done.
PAUSE_S_MIN: Final = 0.1
PAUSE_S_MAX: Final = 5.0
SHORTEN_MAX: Final = 10_000  # Delivered messages before their space is freed.
IDLE_MS: Final = 600_000  # An outbox that is empty for this time is dropped.
SWEEP_S: Final = 60.0

Rows = list[tuple[int, OutboxEntry]]

_log = logging.getLogger("longhall.outbox")


class OutboxCarrier(Protocol):
    """The way to queues of other groups; fulfilled by `service.outbox_calls`."""

    async def locate(self, name: str) -> QueueLocation:
        """The current incarnation of a queue. UNKNOWN_QUEUE if it certainly does not exist."""

    async def deliver(self, name: str, topic_id: bytes, batch: OutboxBatch) -> int:
        """Store a batch in this incarnation of a queue. Returns the first offset that the queue had no room for, or the
        offset behind the batch.
        """

    async def check_room(self, name: str, count: int, size_bytes: int) -> None:
        """Raises QUEUE_FULL if a queue has no room for so many messages now."""


@final
class OutboxDelivery(OutboxListener):
    """The outboxes of one hall on their way. Without a carrier, on a lone node, there are none."""

    def __init__(self, hall: Hall) -> None:
        self.carrier: OutboxCarrier | None = None
        self.dropped = 0  # Messages whose target was gone, since the start.
        self.watch = TargetWatch(hall)
        self._hall = hall
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._arrivals = ArrivalWaits()
        self._calls = asyncio.Semaphore(CALLS_MAX)
        self._emptied_ms: dict[int, int] = {}  # By stream: since when it is empty.
        self._oldest: dict[int, int] = {}  # By stream: the time of its first message, while it is delivered.
        self._sweeping: asyncio.Task[None] | None = None
        self._stopped = True

    def connect(self, carrier: OutboxCarrier) -> None:
        """Set the way to other groups, before `start`."""
        self.carrier = carrier

    def start(self) -> None:
        """Go on with the outboxes that an earlier leader left."""
        self._stopped = False
        for stream in list(self._hall.outboxes.by_stream):
            self.put(stream)
        self._sweeping = self._hall.background.start("outbox sweep", self._sweep_always)
        if self.carrier is not None:
            self.watch.start(self.carrier)

    async def stop(self) -> None:
        """Stop all deliveries; what is under way is repeated by the next leader."""
        self._stopped = True
        await self.watch.stop()
        await cancel(self._sweeping)
        for task in list(self._tasks.values()):
            await cancel(task)
        self._tasks.clear()
        for stream in list(self._hall.outboxes.by_stream):
            self._arrivals.forget(stream)

    def put(self, stream: int) -> None:
        if self._stopped or self.carrier is None or stream in self._tasks:
            return
        self._emptied_ms.pop(stream, None)
        self._tasks[stream] = self._hall.background.start("outbox", partial(self._work, stream))

    def arrival(self, stream: int, behind: int) -> Awaitable[None] | None:
        outbox = self._hall.outboxes.by_stream.get(stream)
        if outbox is None or outbox.next_offset >= behind or not self.is_delivering:
            return None
        return self._arrivals.wait(stream, behind)

    # For metrics

    @property
    def is_delivering(self) -> bool:
        """True at the leader of a group that can reach others."""
        return not self._stopped and self.carrier is not None

    @property
    def waiting(self) -> int:
        """Messages in all outboxes."""
        return sum(waiting(self._hall, outbox) for outbox in self._hall.outboxes.by_stream.values())

    @property
    def oldest_age_ms(self) -> int:
        """The age of the oldest message of all outboxes; 0 without one."""
        oldest = min(self._oldest.values(), default=0)
        return max(self._hall.time.now_ms() - oldest, 0) if oldest else 0

    # One outbox

    async def _work(self, stream: int) -> None:
        outbox = self._hall.outboxes.by_stream.get(stream)
        pause_s = PAUSE_S_MIN
        run = _Run(outbox.until if outbox is not None else 0)
        while outbox is not None and not self._stopped and waiting(self._hall, outbox):
            if self._hall.outboxes.under_way.get(outbox.target):  # Earlier messages of the same publishers come first.
                await asyncio.sleep(DIRECT_LOOK_S)
                continue
            try:
                advanced = await self._step(outbox, run)
            except (LonghallError, OSError) as error:
                _log.info("an outbox waits", extra={"target": outbox.target, "reason": str(error)})
                advanced = False
            if advanced:
                self._arrivals.reached(stream, max(run.delivered, outbox.next_offset))
                pause_s = PAUSE_S_MIN
            else:
                self._arrivals.give_up(stream)
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, PAUSE_S_MAX)
        if outbox is not None and not waiting(self._hall, outbox):
            shorten(self._hall, self._hall.partitions[stream], outbox.next_offset)
            self._emptied_ms[stream] = self._hall.time.now_ms()
        self._arrivals.forget(stream)
        self._oldest.pop(stream, None)
        self._tasks.pop(stream, None)  # After a failure the supervisor restarts the task under this stream.

    async def _step(self, outbox: Outbox, run: _Run) -> bool:
        """Deliver one batch, or find out why that is not possible; True if something moved."""
        hall = self._hall
        partition = hall.partitions[outbox.stream]
        at = max(run.delivered, outbox.next_offset)
        if partition.high_watermark <= at:
            if partition.log.next_offset == at:  # Everything is delivered: confirm it.
                await self._aim(outbox, at, b"", at)
                return True
            await committed(hall, partition.shard)
        rows = await read_entries(hall, partition, at, BATCH_MAX, BATCH_BYTES_MAX)
        self._oldest[outbox.stream] = rows[0][1].timestamp_ms or hall.time.now_ms()
        try:
            assert self.carrier is not None
            location = await self.watch.locate(self.carrier, outbox.target)
        except LonghallError as error:
            if error.code is not Code.UNKNOWN_QUEUE:
                raise
            return await self._without_target(outbox, rows, at, run)
        if outbox.topic_id != location.topic_id and at < run.attempted:
            await self._give_up(outbox, run.attempted, "the queue was replaced")
            return True
        if rows[-1][0] >= outbox.until or outbox.topic_id != location.topic_id:
            until = min(at + AIM_MAX, max(partition.high_watermark, rows[-1][0] + 1))
            await self._aim(outbox, at, location.topic_id, until)
        return await self._deliver(outbox, rows, run)

    async def _aim(self, outbox: Outbox, next_offset: int, topic_id: bytes, until: int) -> None:
        hall = self._hall
        write_outbox(hall, hall.outboxes.decide_aim(outbox.stream, next_offset, topic_id, until))
        partition = hall.partitions[outbox.stream]
        if next_offset - partition.log.start_offset >= SHORTEN_MAX:
            shorten(hall, partition, next_offset)
        await committed(hall, hall.shards[OUTBOX_SHARD])

    async def _deliver(self, outbox: Outbox, rows: Rows, run: _Run) -> bool:
        assert self.carrier is not None
        batch = OutboxBatch(self._hall.options.wing, outbox.stream, rows)
        async with self._calls:
            try:
                reached = await self.carrier.deliver(outbox.target, outbox.topic_id, batch)
            except LonghallError as error:
                if error.code is not Code.UNKNOWN_QUEUE:
                    run.attempted = max(run.attempted, rows[-1][0] + 1)
                raise
        run.delivered = max(reached, rows[0][0])
        if reached <= rows[-1][0]:
            run.attempted = max(run.attempted, rows[-1][0] + 1)  # Other lanes of the target may have the rest.
            if reached > outbox.next_offset:  # The rest may wait for a long time.
                await self._aim(outbox, reached, outbox.topic_id, outbox.until)
        return reached > rows[0][0]

    async def _without_target(self, outbox: Outbox, rows: Rows, at: int, run: _Run) -> bool:
        """The target is gone: drop what does not wait for it to exist again."""
        if at < run.attempted:
            await self._give_up(outbox, run.attempted, "the queue was deleted")
            return True
        behind = at
        for offset, entry in rows:
            if entry.waits:
                break
            behind = offset + 1
        if behind == at:
            return False
        await self._give_up(outbox, behind, "there is no such queue")
        return True

    async def _give_up(self, outbox: Outbox, until: int, reason: str) -> None:
        count = until - outbox.next_offset
        self.dropped += count
        _log.warning("messages of an outbox went with their target", extra={"target": outbox.target, "reason": reason})
        await self._aim(outbox, until, b"", until)

    # Outboxes that are not used any more

    async def _sweep_always(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_S)
            self.sweep()

    def sweep(self) -> None:
        """Drop outboxes that have been empty for a while."""
        now_ms = self._hall.time.now_ms()
        for stream, outbox in list(self._hall.outboxes.by_stream.items()):
            if stream in self._tasks or waiting(self._hall, outbox):
                continue
            if now_ms - self._emptied_ms.setdefault(stream, now_ms) >= IDLE_MS:
                del self._emptied_ms[stream]
                close(self._hall, outbox)


@final
class _Run:
    """What one task knows beyond the log. Everything that an earlier leader aimed may have arrived."""

    def __init__(self, attempted: int) -> None:
        self.delivered = 0  # The offset behind the delivered messages; not all of it is confirmed.
        self.attempted = attempted  # The messages below may have reached the incarnation that they are aimed at.

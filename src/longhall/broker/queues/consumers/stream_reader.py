"""Push of a stream: one consumer is given the messages of the queue's log from a position on, and removes none.

    start                  the first message
    "first"                the oldest one in the log
    "last"                 the newest one
    "next"                 the next one that is published
    an offset              that one, or the nearest that the log has
    a time                 the first one that was published then or later

Messages of open transactions are not shown, as for other readers of the log. A consumer gets as many as it has credit
for; what its filter leaves out costs none. The position is the client's: it names it when it connects again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final, final

import msgspec

from longhall.broker.hall import Hall
from longhall.broker.offset_lookup import look_up_offset
from longhall.broker.partition import Partition, Watcher
from longhall.broker.queues.consumers.session import Consumer, PushedMessages
from longhall.broker.queues.delivery.browse import delivery_of
from longhall.broker.queues.delivery.message_lookup import read_through
from longhall.broker.queues.delivery.window import Window
from longhall.broker.queues.running_queue import RunningQueue
from longhall.errors import LonghallError
from longhall.queues.envelope import Fields, decode_record
from longhall.queues.messages import Delivery
from longhall.queues.outcomes import UNREADABLE, Candidate
from longhall.records.record import Record

FIRST: Final = "first"
LAST: Final = "last"
NEXT: Final = "next"
FILTER_VALUE: Final = "x-stream-filter-value"
BATCH_MAX: Final = 256  # Messages that are pushed together.
LOOK_S: Final = 1.0  # A queue that was deleted, or a damaged place that was repaired, is noticed within this time.

_log = logging.getLogger("longhall.queues")


class StreamStart(msgspec.Struct, array_like=True):
    """Where a consumer begins, and which messages it wants. Without filters it gets all."""

    at: str = NEXT  # FIRST, LAST or NEXT, if neither offset nor time is given.
    offset: int = -1
    time_ms: int = -1
    filters: list[str] = []
    unfiltered: bool = False  # With filters: messages without a filter value, too.


@final
class StreamReader(Watcher):
    """The position of one consumer in a stream, and the task that pushes to it."""

    def __init__(
        self,
        hall: Hall,
        queue: RunningQueue,
        consumer: Consumer,
        start: StreamStart,
        on_gone: Callable[[Consumer], None],
    ) -> None:
        self.consumer = consumer
        self._hall = hall
        self._queue = queue
        self._start = start
        self._on_gone = on_gone
        self._filters = frozenset(one.encode() for one in start.filters)
        self._wake = asyncio.Event()
        self._task = hall.background.start("push a stream", self._run)

    def changed(self) -> None:
        """Credit was given, or the client reads again."""
        self._wake.set()

    def more(self, partition: Partition) -> None:
        self._wake.set()

    def stop(self) -> None:
        """The consumer is gone."""
        self._task.cancel()
        self._queue.main_lane().watchers.pop(self, None)

    async def _run(self) -> None:
        partition = self._queue.main_lane()
        window = Window(partition, self._queue)
        offset = await self._first(partition)
        while not self._queue.removed:
            room = min(self.consumer.room, BATCH_MAX)
            found: list[Candidate] = []
            if room > 0 and self.consumer.is_able:
                found = await self._read(window, max(offset, partition.log.start_offset))
            if found and found[0].size_bytes != UNREADABLE:
                offset = self._push(found, room)
                await asyncio.sleep(0)
                continue
            await self._wait(partition)
        self._on_gone(self.consumer)

    async def _wait(self, partition: Partition) -> None:
        self._wake.clear()
        partition.watchers[self] = None
        try:
            async with asyncio.timeout(LOOK_S):
                await self._wake.wait()
        except TimeoutError:
            return

    async def _first(self, partition: Partition) -> int:
        start, log = self._start, partition.log
        if start.offset >= 0:
            return min(max(start.offset, log.start_offset), partition.last_stable_offset)
        if start.time_ms >= 0:
            found = await look_up_offset(self._hall, partition, start.time_ms, True, -1)
            return found[0] if found is not None else partition.last_stable_offset
        if start.at == FIRST:
            return log.start_offset
        if start.at == LAST:
            return max(partition.last_stable_offset - 1, log.start_offset)
        return partition.last_stable_offset

    async def _read(self, window: Window, offset: int) -> list[Candidate]:
        try:
            return await read_through(self._hall, window, offset, BATCH_MAX)
        except LonghallError as error:
            _log.info("a stream cannot be read now", extra={"reason": str(error)})
            return []

    def _push(self, found: list[Candidate], room: int) -> int:
        """Push what the consumer wants of these; returns the position behind them."""
        lane = self._queue.main_lane().lane
        deliveries: list[Delivery] = []
        offset = found[0].offset
        for candidate in found:
            record = candidate.payload
            if isinstance(record, Record):
                fields = decode_record(record, lane)
                if self._wants(fields):
                    if len(deliveries) >= room:
                        break
                    deliveries.append(self._delivery(fields, record.offset))
            offset = candidate.next_offset
        if deliveries:
            self.consumer.take(len(deliveries))
            push = PushedMessages(self.consumer.key, self._queue.entry.name, deliveries)
            if self._hall.usage.meter is not None:
                size = sum(len(one.body) for one in deliveries)
                self._hall.usage.meter.pushed(self.consumer.account, self._queue.entry.name, len(deliveries), size)
            self.consumer.session.sink.push(push)
        return offset

    def _wants(self, fields: Fields) -> bool:
        if not self._filters:
            return True
        value = fields.attributes.get(FILTER_VALUE)
        return self._start.unfiltered if value is None else value[1] in self._filters

    def _delivery(self, fields: Fields, offset: int) -> Delivery:
        delivery = delivery_of(fields, 1, 0)
        delivery.receipt = str(offset)  # It only stands for one credit.
        delivery.offset = offset
        delivery.amqp = fields.amqp
        return delivery

"""Browse: list or search the messages of a queue without a lease.

Lanes are read in the order of delivery, each by offset, then the delayed messages. A page is bounded in messages, bytes
and examined messages; it has the position of the next page. Cold data is read in the background, through windows of its
own, so that receivers keep their cache.
"""

from __future__ import annotations

import asyncio
from typing import Final, final

from longhall.broker.hall import Hall
from longhall.broker.partition import Partition
from longhall.broker.queues.delivery.message_lookup import read_through
from longhall.broker.queues.delivery.window import Window
from longhall.broker.queues.running_queue import RunningQueue
from longhall.errors import Code, LonghallError
from longhall.queues.envelope import Fields, decode_record
from longhall.queues.leases import LEASED
from longhall.queues.messages import Delivery, Page, Seen
from longhall.queues.outcomes import Candidate
from longhall.queues.selector import compile_filter
from longhall.records.record import Record

COUNT_MAX: Final = 1000
LOOKED_AT_MAX: Final = 20_000
ANSWER_BYTES_MAX: Final = 4 * 1024 * 1024
TEXT_CHARACTERS_MAX: Final = 1024
_STEP: Final = 500

WAITING: Final = "waiting"
LEASED_OUT: Final = "leased"
DELAYED: Final = "delayed"
SETTLED: Final = "settled"


@final
class Sought:
    """The search conditions of a browse; by default all messages of the queue match."""

    def __init__(
        self,
        filter: str = "",
        text: str = "",
        from_ms: int = 0,
        until_ms: int = 0,
        settled: bool = False,
        leased: bool = False,
    ) -> None:
        if len(text) > TEXT_CHARACTERS_MAX:
            raise LonghallError(
                Code.INVALID_REQUEST, f"a text to search for has at most {TEXT_CHARACTERS_MAX} characters"
            )
        self._filter = compile_filter(filter) if filter else None
        self._text = text.encode()
        self._from_ms = from_ms
        self._until_ms = until_ms
        self.settled = settled
        self.leased = leased  # Only leased messages.

    def fits(self, fields: Fields) -> bool:
        """True if the message matches."""
        if fields.sent_ms < self._from_ms or 0 < self._until_ms <= fields.sent_ms:
            return False
        if self._text and self._text not in fields.body:
            return False
        return self._filter is None or self._filter.matches(fields)


async def browse(hall: Hall, queue: RunningQueue, sought: Sought, count_max: int, from_offset: int | str = "") -> Page:
    """At most `count_max` messages from an offset of the first lane, or from the `next` of an earlier page."""
    if not 1 <= count_max <= COUNT_MAX:
        raise LonghallError(Code.INVALID_REQUEST, f"a page has 1 to {COUNT_MAX} messages")
    look = _Look(hall, queue, sought, count_max)
    places = look.places()
    at, offset = _place(queue, places, from_offset)
    while at < len(places):
        lane, start = places[at]
        stopped = await look.walk(lane, max(offset, start))
        if stopped >= 0:
            look.page.next = f"{lane}:{stopped}"
            break
        at += 1
        offset = 0
    return look.page


def _place(queue: RunningQueue, places: list[tuple[int, int]], from_offset: int | str) -> tuple[int, int]:
    """Index into the places, and the offset there."""
    if from_offset == "":
        return 0, 0
    lane_text, colon, offset_text = str(from_offset).rpartition(":")
    if not offset_text.isdecimal() or len(offset_text) > 18 or (colon and not lane_text.isdecimal()):
        raise LonghallError(Code.INVALID_REQUEST, f"'{from_offset}' is not a position in a queue")
    wanted = int(lane_text) if colon else queue.main_lane().lane
    for at, (lane, _) in enumerate(places):
        if lane == wanted:
            return at, int(offset_text)
    if not colon or wanted in queue.lanes:
        raise LonghallError(Code.INVALID_REQUEST, f"'{from_offset}' is not a position in this queue")
    # The log of delayed messages is gone, because all were due; later logs may exist.
    later = [at for at, (lane, _) in enumerate(places) if lane not in queue.lanes and lane > wanted]
    return (later[0] if later else len(places)), 0


@final
class _Look:
    """The state of one browse request."""

    def __init__(self, hall: Hall, queue: RunningQueue, sought: Sought, count_max: int) -> None:
        self._hall = hall
        self._queue = queue
        self._sought = sought
        self._count_max = count_max
        self._size = 0
        self.page = Page()

    def places(self) -> list[tuple[int, int]]:
        """The logs to read and the start offset in each, in the order of delivery."""
        queue = self._queue
        found: list[tuple[int, int]] = []
        for lane, _, _ in queue.queue.lanes():
            log = queue.lanes[lane].log
            found.append((lane, log.start_offset if self._sought.settled else queue.queue.cursor(lane).floor()))
        if self._sought.leased:
            return found  # Delayed messages are not leased.
        return found + [(lane, queue.hidden[lane].log.start_offset) for lane in sorted(queue.hidden)]

    async def walk(self, lane: int, offset: int) -> int:
        """Read one log; returns where to continue when the page is full, or -1 at the end."""
        queue = self._queue
        partition = queue.lanes.get(lane) or queue.hidden.get(lane)
        if partition is None:
            return -1
        window = Window(partition, queue)
        queue.queue.tick(self._hall.time.now_ms())
        while not partition.deleted and not self._past_leases(lane, offset):
            candidates = await read_through(self._hall, window, offset, _STEP)
            if not candidates:
                break
            for candidate in candidates:
                if self.page.looked_at >= LOOKED_AT_MAX or len(self.page.messages) >= self._count_max:
                    return candidate.offset
                if self._size >= ANSWER_BYTES_MAX:
                    return candidate.offset
                self._see(partition, candidate)
            offset = candidates[-1].next_offset
            await asyncio.sleep(0)
        return -1

    def _past_leases(self, lane: int, offset: int) -> bool:
        """True if no message from here on can be leased."""
        return self._sought.leased and offset >= self._queue.queue.cursor(lane).scan

    def _see(self, partition: Partition, candidate: Candidate) -> None:
        self.page.looked_at += 1
        record = candidate.payload
        if not isinstance(record, Record):
            return
        lane = partition.lane
        hidden = lane in self._queue.hidden
        if hidden:
            if self._queue.staging.is_settled(lane, record.offset):
                return
            state, until_ms, attempts, first_ms = DELAYED, 0, 0, 0
        else:
            state, until_ms, attempts, first_ms = self._state(lane, record.offset)
        if state == SETTLED and not self._sought.settled:
            return
        if self._sought.leased and state != LEASED_OUT:
            return
        fields = decode_record(record, lane)
        if not self._sought.fits(fields):
            return
        self._size += len(fields.body)
        number = partition.number
        if hidden:
            until_ms = fields.due_ms
            number = self._queue.lane_for(fields.priority, fields.group).number
        self.page.messages.append(
            Seen(
                lane=number,
                offset=-1 if hidden else record.offset,
                state=state,
                until_ms=until_ms,
                delivery=delivery_of(fields, attempts, first_ms),
            )
        )

    def _state(self, lane: int, offset: int) -> tuple[str, int, int, int]:
        """State, end of that state, attempts, and the time of the first delivery."""
        queue = self._queue.queue
        cursor = queue.cursor(lane)
        row = cursor.find(offset)
        if row < 0:
            return (SETTLED if offset < cursor.scan else WAITING), 0, 0, 0
        leases = queue.state.leases
        attempts, first_ms = leases.attempts[row], leases.first_ms[row]
        if not leases.is_hidden(row):
            return WAITING, 0, attempts, first_ms
        state = LEASED_OUT if leases.state[row] == LEASED else DELAYED
        return state, leases.hidden_until_ms(row), attempts, first_ms


def delivery_of(fields: Fields, attempts: int, first_ms: int) -> Delivery:
    """A message as a reader without a lease gets it."""
    return Delivery(
        message_id=fields.message_id,
        receipt="",
        body=fields.body,
        attributes=fields.attributes,
        system=fields.system,
        key=fields.key,
        group=fields.group,
        deduplication_id=fields.deduplication_id,
        sent_ms=fields.sent_ms,
        first_received_ms=first_ms,
        attempts=attempts,
        priority=fields.priority,
        sender=fields.sender,
        reply_to=fields.reply_to,
        correlation_id=fields.correlation_id,
        amqp=fields.amqp,
        dead_letter_source=fields.dead_letter_source,
        dead_letter_reason=fields.dead_letter_reason,
        whole_bytes=fields.whole_bytes,
        seal=fields.seal,
    )

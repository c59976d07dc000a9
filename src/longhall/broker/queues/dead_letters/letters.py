"""Letters: list, show and edit single messages of a queue, mainly dead letters.

An edit is one atomic write: the edited copy is appended to its lane and the old message removed. Leased messages are
neither edited nor moved.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

from longhall.broker.hall import EVENT_ROOM_BYTES, Hall
from longhall.broker.queues.audit.audit_log import audited, audits, note
from longhall.broker.queues.delivery.message_lookup import look, look_up_record, warm
from longhall.broker.queues.running_queue import RunningQueue
from longhall.broker.queues.sending.rules import unsealed
from longhall.broker.queues.write import together, write_queue, write_records
from longhall.broker.waiting import committed
from longhall.errors import Code, LonghallError
from longhall.queues.delivery_reports import message_info_of
from longhall.queues.envelope import decode_record, locate_message_id, seal_of
from longhall.queues.events import Passed, Withdrawn
from longhall.queues.messages import Attempt, Attribute, Letter, LetterPage
from longhall.queues.outcomes import Status
from longhall.queues.record_copies import edited_record
from longhall.records.record import Record
from longhall.records.seal import TAG_BYTES

PAGE_MAX: Final = 1000
PAGE_BYTES_MAX: Final = 4 * 1024 * 1024
LOOKED_AT_MAX: Final = 200_000  # Messages examined to find one by its id.
STEP_MAX: Final = 500

Attributes = Mapping[str, Attribute]


async def letters(hall: Hall, queue: RunningQueue, count_max: int, from_: str) -> LetterPage:
    """A page of messages, lane by lane in the order of offsets, from the `next_from` of an earlier page."""
    if not 1 <= count_max <= PAGE_MAX:
        raise LonghallError(Code.INVALID_REQUEST, f"a page has 1 to {PAGE_MAX} letters")
    page = LetterPage(letters=[])
    size = 0
    lanes = list(queue.lanes)
    at, offset = _place(lanes, from_)
    while at < len(lanes):
        found, behind = await live(hall, queue, lanes[at], offset, STEP_MAX)
        for record in found:
            if len(page.letters) >= count_max or size >= PAGE_BYTES_MAX:
                page.next_from = f"{lanes[at]}:{record.offset}"
                return page
            page.letters.append(letter_of(queue, lanes[at], record))
            size += len(record.value or b"")
        offset = behind
        if behind < 0:
            at += 1
            offset = 0
    return page


async def letter(hall: Hall, queue: RunningQueue, message_id: str) -> Letter:
    """One message by its id. Raises UNKNOWN_MESSAGE."""
    lane, record = await _find(hall, queue, message_id)
    return letter_of(queue, lane, record)


async def edit_letter(
    hall: Hall,
    queue: RunningQueue,
    message_id: str,
    body: bytes | None,
    attributes: Attributes | None,
    seal: bytes = b"",
) -> Letter:
    """Replace the body, all attributes, or both. The id and the history of deaths stay."""
    if body is not None and len(body) - (TAG_BYTES if seal else 0) > queue.settings.message_bytes_max:
        reason = f"a message may have {queue.settings.message_bytes_max} bytes"
        raise LonghallError(Code.MESSAGE_TOO_LARGE, reason)
    lane, record = await _find(hall, queue, message_id)
    if body is not None and not seal and (queue.is_sealed or seal_of(record)):
        raise unsealed(queue)
    passed = await reach(hall, queue, lane, record.offset)
    if hall.storage_full or not hall.has_room(len(record.value or b"") + len(body or b"") + EVENT_ROOM_BYTES):
        raise LonghallError(Code.STORAGE_FULL, "the disk is full")
    now_ms = hall.time.now_ms()
    fields = decode_record(record, lane)
    target = queue.lane_for(fields.priority, fields.group)
    edited = edited_record(record, message_id, now_ms, body, None if attributes is None else dict(attributes), seal)
    with together(hall):
        base = write_records(hall, target, [edited], now_ms, message=False)
        write_queue(hall, queue, [*passed, Withdrawn(queue=queue.number, lane=lane, offsets=[record.offset])])
        if audits(queue):
            moved = audited(hall, queue, "moved", (lane, record.offset), message_info_of(fields), 0, reason="edited")
            note(hall, queue, [moved])
    await committed(hall, queue.shard)
    if fields.priority:  # It is delivered from the lane of its level.
        return await letter(hall, queue, message_id)
    return letter_of(queue, target.lane, Record(base, now_ms, edited.key, edited.value, edited.headers))


async def live(hall: Hall, queue: RunningQueue, lane: int, offset: int, count_max: int) -> tuple[list[Record], int]:
    """The unsettled messages among the next `count_max` from `offset` on, and where to continue (-1: end).

    Settled ranges are skipped without a read.
    """
    cursor = queue.queue.cursor(lane)
    if offset < cursor.scan:
        outstanding = cursor.live_between(offset, cursor.scan)
        offset = outstanding[0] if outstanding else cursor.scan
    candidates = await look(hall, queue, lane, offset, count_max)
    await asyncio.sleep(0)
    if not candidates:
        return [], -1
    records = [candidate.payload for candidate in candidates]
    found = [record for record in records if isinstance(record, Record) and is_live(queue, lane, record.offset)]
    return found, candidates[-1].next_offset


def is_live(queue: RunningQueue, lane: int, offset: int) -> bool:
    """True if a message is in the queue: waiting, leased or returned."""
    return not queue.queue.cursor(lane).is_settled(offset)


async def reach(hall: Hall, queue: RunningQueue, lane: int, offset: int) -> list[Passed]:
    """The events that make a waiting message outstanding, so that it can be withdrawn: the scan passes it.

    The caller must not await before it writes them. Raises if the message is leased or gone.
    """
    while True:
        queue.queue.tick(hall.time.now_ms())
        if queue.removed or not is_live(queue, lane, offset):
            raise LonghallError(Code.UNKNOWN_MESSAGE, "The message is not in the queue any more.")
        if queue.queue.is_leased(lane, offset):
            raise LonghallError(Code.MESSAGE_LEASED, "The message is leased: try again when its lease has ended.")
        if offset < queue.queue.cursor(lane).scan:
            return []
        decided = queue.queue.decide_pass(lane, offset + 1, queue.peek)
        if isinstance(decided, Passed):
            return [decided]
        if decided is not Status.COLD:
            raise LonghallError(Code.TOO_MANY_IN_FLIGHT, "Too many messages are before it: settle or move some first.")
        await warm(hall, queue, lane)


def letter_of(queue: RunningQueue, lane: int, record: Record) -> Letter:
    """A record as an operator sees it."""
    fields = decode_record(record, lane)
    return Letter(
        message_id=fields.message_id,
        lane=lane,
        offset=record.offset,
        body=fields.body,
        attributes=fields.attributes,
        key=fields.key,
        group=fields.group,
        priority=fields.priority,
        sent_ms=fields.sent_ms,
        died_ms=_died_ms(fields.deaths) if fields.dead_letter_reason else 0,
        reason=fields.dead_letter_reason,
        source=fields.dead_letter_source,
        attempts=fields.attempts,
        first_received_ms=fields.first_received_ms,
        history=_attempts(fields.attempt_history),
        deaths=fields.deaths.split("\n") if fields.deaths else [],
        reply_to=fields.reply_to,
        correlation_id=fields.correlation_id,
        leased=queue.queue.is_leased(lane, record.offset),
        seal=fields.seal,
    )


async def _find(hall: Hall, queue: RunningQueue, message_id: str) -> tuple[int, Record]:
    """Lane and record of a message: at the position of its id, or by a search."""
    located = locate_message_id(message_id)
    if located is not None and located[0] in queue.lanes and is_live(queue, *located):
        record = await look_up_record(hall, queue, *located)
        if record is not None and decode_record(record, located[0]).message_id == message_id:
            return located[0], record
    looked_at = 0
    for lane in list(queue.lanes):
        offset = 0
        while offset >= 0 and looked_at < LOOKED_AT_MAX:
            found, offset = await live(hall, queue, lane, offset, STEP_MAX)
            looked_at += STEP_MAX
            for record in found:
                if decode_record(record, lane).message_id == message_id:
                    return lane, record
    raise LonghallError(Code.UNKNOWN_MESSAGE, f"There is no message '{message_id}' in queue '{queue.entry.name}'.")


def _place(lanes: list[int], from_: str) -> tuple[int, int]:
    if not from_:
        return 0, 0
    lane, _, offset = from_.partition(":")
    if not lane.isdecimal() or not offset.isdecimal() or len(from_) > 40 or int(lane) not in lanes:
        raise LonghallError(Code.INVALID_REQUEST, f"'{from_}' is not a position in this queue")
    return lanes.index(int(lane)), int(offset)


def _attempts(history: str) -> list[Attempt]:
    """The attempts of a history header; unreadable lines are skipped."""
    found: list[Attempt] = []
    for line in history.split("\n"):
        words = line.split(" ")
        if len(words) == 3 and words[0].isdecimal() and words[1].isdecimal():
            found.append(Attempt(received_ms=int(words[0]), ended_ms=int(words[1]), how=words[2]))
    return found


def _died_ms(deaths: str) -> int:
    word = deaths.split("\n")[-1].split(" ")[0]
    return int(word) if word.isdecimal() and len(word) <= 18 else 0

"""Receive: give out messages under a lease, waiting for some if there are none.

decide    the cursor chooses; what died on the way is buried first
cold      what is not in memory is read beside the loop, and the cursor is asked again
park      nothing, and time left: wait until something is committed, given back, or a lease ends
release   the leases are committed before anybody sees a message
"""

from __future__ import annotations

import asyncio
from typing import Final, final

from longhall.broker.hall import EVENT_ROOM_BYTES, Hall
from longhall.broker.pending import Pending, when_committed
from longhall.broker.queues.audit.audit_log import audits, note_deliveries
from longhall.broker.queues.audit.delivery_report import report
from longhall.broker.queues.consumers.session import SESSION_LEASE_MS
from longhall.broker.queues.dead_letters.dead_lettering import dead_letter, dead_letter_queue_of
from longhall.broker.queues.delivery.lease_timer import arm_lease_timer, next_change_ms
from longhall.broker.queues.delivery.message_lookup import warm
from longhall.broker.queues.delivery.receiver_filters import receiver_filter_for
from longhall.broker.queues.delivery.time_zones import is_open
from longhall.broker.queues.large_messages.reassembly import Ration, fill
from longhall.broker.queues.running_queue import RunningQueue
from longhall.broker.queues.write import check_here, together, write_queue
from longhall.broker.waiting import committed
from longhall.errors import Code, LonghallError
from longhall.queues.delivery_reports import SETTLED, message_info_of, wants_report
from longhall.queues.delivery_selection import Peek
from longhall.queues.envelope import Fields, body_bytes_of, decode_record
from longhall.queues.marks import NO_LIMIT
from longhall.queues.messages import Delivery
from longhall.queues.outcomes import Candidate, Given, Outcome, Status
from longhall.queues.queue import ANY_LANE
from longhall.queues.receiver_filter import ReceiverFilter
from longhall.queues.stamps import HEAD, stamp_leases
from longhall.records.record import Record

STEPS_MAX: Final = 1000  # Of one receive without giving anything: then it answers, and the next goes on from there.


def receive(
    hall: Hall,
    queue: RunningQueue,
    count_max: int,
    wait_ms: int,
    lease_ms: int,
    filter: str = "",
    consumer: str = "",
    in_parts: bool = True,
) -> Pending[list[Delivery]]:
    """At most `count_max` messages; none when the time is over. With a filter, of those that match.

    `consumer` is the identity of the receiver, for the audit topic. A receiver that cannot read `in_parts` gets no
    message that is too large for one reply. It can be cancelled until a message is leased to it.
    """
    receiver_filter = receiver_filter_for(queue, filter) if filter else None
    check_delivery(hall, queue)
    if wait_ms > 0 and count_max > 1 and queue.gather_ms and queue.available() < count_max:
        gathered: Pending[list[Delivery]] = Pending()
        receiver = _Receiver(count_max, wait_ms, lease_ms, receiver_filter, consumer, in_parts)
        gathered.run(_receive_gathered(hall, queue, receiver, gathered))
        return gathered
    outcome = decide_delivery(hall, queue, count_max, lease_ms, receiver_filter, consumer)
    pending: Pending[list[Delivery]] = Pending()
    if outcome.given and not outcome.deaths:
        in_session = lease_ms >= SESSION_LEASE_MS
        deliveries = [_delivery(queue, given, in_session) for given in outcome.given]
        if not any(delivery.whole_bytes for delivery in deliveries):
            pending.decide(deliveries)
            when_committed(hall, queue.shard, pending)
            return pending
    elif outcome.status is Status.EMPTY and wait_ms <= 0:
        pending.decide([])
        when_committed(hall, queue.shard, pending)
        return pending
    receiver = _Receiver(count_max, wait_ms, lease_ms, receiver_filter, consumer, in_parts)
    pending.run(_receive_later(hall, queue, receiver, outcome, pending))
    return pending


@final
class _Receiver:
    """What a receiver asked for."""

    def __init__(
        self,
        count_max: int,
        wait_ms: int,
        lease_ms: int,
        receiver_filter: ReceiverFilter | None,
        consumer: str,
        in_parts: bool,
    ) -> None:
        self.count_max = count_max
        self.wait_ms = wait_ms
        self.lease_ms = lease_ms
        self.receiver_filter = receiver_filter
        self.consumer = consumer
        self.in_parts = in_parts


async def _receive_gathered(
    hall: Hall, queue: RunningQueue, receiver: _Receiver, pending: Pending[list[Delivery]]
) -> list[Delivery]:
    """Wait for the first message, then as long as the profile of the queue says for more, and receive."""
    loop = asyncio.get_running_loop()
    ends_s = loop.time() + receiver.wait_ms / 1000
    if not queue.available():
        arm_lease_timer(hall, queue)
        filtered = receiver.receiver_filter is not None
        await queue.waiters.wait(list(queue.lanes.values()), ends_s - loop.time(), receiver.count_max, filtered)
    await asyncio.sleep(max(0.0, min(queue.gather_ms / 1000, ends_s - loop.time())))
    check_delivery(hall, queue)
    receiver.wait_ms = max(0, int((ends_s - loop.time()) * 1000))
    outcome = decide_delivery(
        hall, queue, receiver.count_max, receiver.lease_ms, receiver.receiver_filter, receiver.consumer
    )
    return await _receive_later(hall, queue, receiver, outcome, pending)


async def _receive_later(
    hall: Hall, queue: RunningQueue, receiver: _Receiver, outcome: Outcome, pending: Pending[list[Delivery]]
) -> list[Delivery]:
    """Go on from the first decision: read what is cold or large, and wait for messages."""
    loop = asyncio.get_running_loop()
    ends_s = loop.time() + receiver.wait_ms / 1000
    receiver_filter = receiver.receiver_filter
    if outcome.status is Status.EMPTY:
        # A commit between the first decision and the start of this task has woken nobody.
        check_delivery(hall, queue)
        outcome = decide_delivery(
            hall, queue, receiver.count_max, receiver.lease_ms, receiver_filter, receiver.consumer
        )
    for _ in range(STEPS_MAX):
        if outcome.given:
            pending.keep()
        if outcome.deaths:
            await _letters_committed(hall, queue)
        if outcome.given:
            in_session = receiver.lease_ms >= SESSION_LEASE_MS
            deliveries = [_delivery(queue, given, in_session) for given in outcome.given]
            await committed(hall, queue.shard)
            if not any(delivery.whole_bytes for delivery in deliveries):
                return deliveries
            deliveries = await fill(hall, queue, outcome.given, deliveries, receiver.consumer, receiver.in_parts)
            if deliveries:
                return deliveries
        elif outcome.status is Status.COLD:
            await warm(hall, queue, outcome.cold_lane)
        elif outcome.status is Status.TOO_MANY and not queue.settings.fifo and _is_full(queue):
            raise LonghallError(Code.TOO_MANY_IN_FLIGHT, "too many messages are in flight")
        elif outcome.status not in (Status.DEATHS, Status.MORE):
            left_s = ends_s - loop.time()
            if left_s <= 0:
                return []
            arm_lease_timer(hall, queue)
            await queue.waiters.wait(
                list(queue.lanes.values()), left_s, receiver.count_max, receiver_filter is not None
            )
        elif receiver_filter is not None:
            await asyncio.sleep(0)  # A long scan is cut into pieces, so that other requests come between.
        check_delivery(hall, queue)
        outcome = decide_delivery(
            hall, queue, receiver.count_max, receiver.lease_ms, receiver_filter, receiver.consumer
        )
    return []


async def _letters_committed(hall: Hall, queue: RunningQueue) -> None:
    """Wait until the dead letters of a receive can be received: a consumer that is told of no message finds them."""
    await committed(hall, queue.shard)
    letters = dead_letter_queue_of(hall, queue)
    if letters is not None and letters.queue is not None and letters.queue.shard is not queue.shard:
        await committed(hall, letters.queue.shard)


def check_delivery(hall: Hall, queue: RunningQueue) -> None:
    """Raises UNKNOWN_QUEUE if the queue was deleted, STORAGE_FULL if there is no room for leases."""
    if queue.removed:
        raise LonghallError(Code.UNKNOWN_QUEUE, f"Queue '{queue.entry.name}' was deleted.")
    check_here(queue)
    if not hall.has_room(EVENT_ROOM_BYTES // 4):
        raise LonghallError(Code.STORAGE_FULL, "the disk is full")


def decide_delivery(
    hall: Hall,
    queue: RunningQueue,
    count_max: int,
    lease_ms: int,
    receiver_filter: ReceiverFilter | None,
    consumer: str,
    lane_id: int = ANY_LANE,
    until: int = NO_LIMIT,
) -> Outcome:
    """Decide what is delivered, write it, and move what has died. Of one lane, if one is named."""

    def peek(lane: int, offset: int, count: int) -> list[Candidate] | None:
        return queue.window(lane).look(offset, count, kept_from_ms)

    now_ms = hall.time.now_ms()
    kept_from_ms = queue.kept_from_ms(now_ms)
    is_rationed = receiver_filter is None and any(hall.chunked_messages)
    look: Peek = Ration(queue, kept_from_ms).peek if is_rationed else peek
    queue.follow_letters(queue.settings.dead_letters is not None and dead_letter_queue_of(hall, queue) is not None)
    hours = queue.settings.hours
    opened = hours is None or is_open(hours, now_ms)
    outcome = queue.queue.decide_receive(now_ms, count_max, lease_ms, look, opened, receiver_filter, lane_id, until)
    if outcome.given and queue.settings.late_stamped == HEAD:
        stamp_leases(outcome)
    if outcome.given and (audits(queue) or queue.settings.delivery == "at-most-once"):
        _write_told(hall, queue, outcome, consumer)
    else:
        write_queue(hall, queue, outcome.events)
    if outcome.given and hall.usage.meter is not None:
        hall.usage.meter.delivered(queue.entry.name, len(outcome.given), _bytes_of(outcome.given))
    if receiver_filter is not None:
        queue.queue.note_passed(receiver_filter)
    if outcome.deaths:
        dead_letter(hall, queue, outcome.deaths)
    if outcome.given and len(queue.waiters):
        arm_lease_timer(hall, queue)
    return outcome


def _bytes_of(given: list[Given]) -> int:
    """The size of the bodies of messages."""
    size = 0
    for one in given:
        record = one.candidate.payload
        if isinstance(record, Record):
            size += body_bytes_of(record)
    return size


def _write_told(hall: Hall, queue: RunningQueue, outcome: Outcome, consumer: str) -> None:
    """Write the leases, with the audit records and delivery reports about them, in one atomic write."""
    with together(hall):
        write_queue(hall, queue, outcome.events)
        if audits(queue):
            note_deliveries(hall, queue, outcome, consumer)
        if queue.settings.delivery == "at-most-once":
            for given in outcome.given:
                record = given.candidate.payload
                if isinstance(record, Record) and wants_report(record):
                    info = message_info_of(decode_record(record, given.lane))
                    report(hall, queue, info, SETTLED, attempts=given.attempts)


def _is_full(queue: RunningQueue) -> bool:
    """True if the bound of messages in flight stops deliveries, not that of messages that a filter has passed over."""
    return queue.queue.in_flight + queue.queue.held_back >= queue.settings.in_flight_max


def until_change_s(hall: Hall, queue: RunningQueue) -> float:
    """The seconds until messages may become available by time alone."""
    now_ms = hall.time.now_ms()
    deadline_ms = next_change_ms(queue, now_ms)
    if deadline_ms is None:
        return 60.0
    return max(deadline_ms - now_ms, 1) / 1000


def _delivery(queue: RunningQueue, given: Given, in_session: bool) -> Delivery:
    record = given.candidate.payload
    assert isinstance(record, Record)
    fields = decode_record(record, given.lane)
    receipt = ""
    if queue.settings.delivery != "at-most-once":
        encode = queue.receipts.encode_for_session if in_session else queue.receipts.encode
        receipt = encode(given.lane, record.offset, given.number, fields.report_fate)
        if fields.report_fate or audits(queue):
            queue.delivery_cache.remember(given.lane, record.offset, message_info_of(fields))
    delivery = Delivery(
        message_id=fields.message_id,
        receipt=receipt,
        body=fields.body,
        attributes=fields.attributes,
        system=fields.system,
        key=fields.key,
        partition=queue.lanes[given.lane].number,
        offset=record.offset,
        sent_ms=fields.sent_ms,
        first_received_ms=fields.first_received_ms or given.first_ms,
        attempts=given.attempts,
        amqp=fields.amqp,
    )
    if queue.settings.fifo:
        delivery.group = given.candidate.group
        delivery.sequence = queue.sequence_of(given.lane, record.offset)
    _add_rare_fields(delivery, fields)
    return delivery


def _add_rare_fields(delivery: Delivery, fields: Fields) -> None:
    """The fields that most messages lack. The time to make a structure grows with the square of its named fields."""
    if fields.group:
        delivery.group = fields.group
    if fields.deduplication_id:
        delivery.deduplication_id = fields.deduplication_id
    if fields.stamp:
        delivery.stamp = fields.stamp
    if fields.attempts:
        delivery.attempts_before = fields.attempts
    if fields.priority:
        delivery.priority = fields.priority
    if fields.sender:
        delivery.sender = fields.sender
    if fields.reply_to:
        delivery.reply_to = fields.reply_to
    if fields.correlation_id:
        delivery.correlation_id = fields.correlation_id
    if fields.report_fate:
        delivery.report_fate = True
    if fields.fate:
        delivery.fate = fields.fate
    if fields.dead_letter_source or fields.dead_letter_reason:
        delivery.dead_letter_source = fields.dead_letter_source
        delivery.dead_letter_reason = fields.dead_letter_reason
    if fields.whole_bytes:
        delivery.whole_bytes = fields.whole_bytes
    if fields.seal:
        delivery.seal = fields.seal

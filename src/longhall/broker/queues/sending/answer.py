"""Answer: a consumer's reply goes to the reply queue of the message, and the message is settled.

Both are one atomic write; an answer for a queue of another group is in the outbox then. An answer replaces the delivery
report. If the reply queue is gone, nothing changes and the consumer gets an error; it may settle instead.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import final

from longhall.broker.hall import EVENT_ROOM_BYTES, Hall
from longhall.broker.queues.dead_letters.late_arrivals import bury, check_burial, letters_of_deleted
from longhall.broker.queues.dead_letters.move_bounds import MoveTarget, move_target
from longhall.broker.queues.delays.staging import DelayStager
from longhall.broker.queues.delivery.message_lookup import look_up_record
from longhall.broker.queues.delivery.settle import settle, write_settles
from longhall.broker.queues.outbox.outbox_delivery import OutboxCarrier
from longhall.broker.queues.outbox.outbox_log import MESSAGE_BYTES_MAX, has_room, put
from longhall.broker.queues.running_queue import RunningQueue
from longhall.broker.queues.sending.send import Rider, send_with
from longhall.broker.queues.write import check_here, together
from longhall.broker.waiting import acknowledged, committed
from longhall.errors import Code, LonghallError
from longhall.queues.delivery_reports import message_info_of
from longhall.queues.envelope import RANDOM_BYTES, Fields, decode_record, encode_record, new_message_id
from longhall.queues.events import Settled
from longhall.queues.messages import Accepted, Outgoing
from longhall.queues.outbox_events import OutboxEntry
from longhall.shards.shard import ALL

Permit = Callable[[str], None]


async def answer(
    hall: Hall,
    stager: DelayStager,
    carrier: OutboxCarrier | None,
    queue: RunningQueue,
    receipt: str,
    message: Outgoing,
    consumer: str = "",
    permit: Permit | None = None,
) -> Accepted:
    """Send the answer and settle. For a settled message nothing is sent. `permit` raises if the consumer may not write
    to the reply queue.
    """
    place = queue.receipts.verify(receipt)
    if isinstance(place, Code):
        raise LonghallError(place, "The receipt is not one of this queue.")
    rider = _Settling(hall, queue, place, consumer)
    if rider.is_settled():
        await acknowledged(hall, queue.shard, ALL)  # The earlier answer may not be committed yet.
        return Accepted(repeated=True)
    record = await look_up_record(hall, queue, place[0], place[1])
    if record is None:
        raise LonghallError(Code.UNKNOWN_MESSAGE, "The message is gone.")
    fields = decode_record(record, place[0])
    rider.fields = fields
    if permit is not None and fields.reply_to:
        permit(fields.reply_to)
    letters = letters_of_deleted(hall, fields.reply_to)
    if letters is not None:
        return await _bury_answer(hall, queue, rider, letters, message)
    if not fields.reply_to:
        raise LonghallError(Code.INVALID_REQUEST, "The message names no reply queue.")
    elsewhere = move_target(hall, fields.reply_to, queue)
    if elsewhere is not None and elsewhere.queue is None:
        return await _answer_elsewhere(hall, carrier, queue, rider, message)
    target = _address(hall, fields, message)
    accepted = await send_with(hall, stager, target, message, rider)
    if accepted.repeated:  # The reply queue has the answer; only the settle is missing.
        (code,) = await settle(hall, queue, [receipt], consumer)
        if code is not None:
            raise LonghallError(code)
    queue.waiters.wake(1)
    await acknowledged(hall, target.shard, target.acknowledgers, target.in_sync_min)
    await committed(hall, queue.shard)
    return accepted


async def _answer_elsewhere(
    hall: Hall, carrier: OutboxCarrier | None, queue: RunningQueue, rider: _Settling, message: Outgoing
) -> Accepted:
    """The reply queue is in another group: settle, with the answer in the outbox."""
    fields = rider.fields
    assert fields is not None
    if carrier is None:
        raise LonghallError(Code.NOT_READY, "Other groups cannot be asked yet; try again.")
    try:
        location = await carrier.locate(fields.reply_to)
    except LonghallError as error:
        if error.code is Code.UNKNOWN_QUEUE:
            raise _gone(fields.reply_to) from None
        raise
    bytes_max = min(location.message_bytes_max, MESSAGE_BYTES_MAX)
    if len(message.body) > bytes_max:
        raise LonghallError(Code.MESSAGE_TOO_LARGE, f"An answer to '{fields.reply_to}' may have {bytes_max} bytes.")
    if not has_room(hall, fields.reply_to):
        raise LonghallError(Code.QUEUE_FULL, f"Too many messages wait for '{fields.reply_to}'.")
    if hall.storage_full or not hall.has_room(len(message.body) + EVENT_ROOM_BYTES):
        raise LonghallError(Code.STORAGE_FULL, "the disk is full")
    _fill_in(fields, message, location.fifo, location.deduplicates)
    message_id = new_message_id(hall.world.entropy.bytes(RANDOM_BYTES))
    now_ms = hall.time.now_ms()
    encode_record(message, message_id, now_ms)  # Raises for reserved names.
    entry = OutboxEntry(group=message.group, timestamp_ms=now_ms, message=message, message_id=message_id)
    rider.check()
    with together(hall):
        put(hall, fields.reply_to, entry, now_ms)
        rider.write()
        if hall.usage.meter is not None:
            hall.usage.meter.sent(fields.reply_to, 1, len(message.body))
    queue.waiters.wake(1)
    await acknowledged(hall, queue.shard, ALL)
    return Accepted(message_id=message_id)


async def _bury_answer(
    hall: Hall, queue: RunningQueue, rider: _Settling, letters: MoveTarget, message: Outgoing
) -> Accepted:
    """The reply queue was deleted and its dead letters take what arrives for it: settle, with the answer there."""
    fields = rider.fields
    assert fields is not None
    message.correlation_id = message.correlation_id or fields.correlation_id or fields.message_id
    record = encode_record(message, "", hall.time.now_ms())
    check_burial(hall, letters, record)
    rider.check()
    with together(hall):
        message_id = bury(hall, letters, fields.reply_to, record, message=False)
        rider.write()
        if hall.usage.meter is not None:
            hall.usage.meter.sent(letters.name, 1, len(message.body))
    queue.waiters.wake(1)
    await acknowledged(hall, *letters.acknowledgement(hall))
    await committed(hall, queue.shard)
    return Accepted(message_id=message_id)


def _address(hall: Hall, fields: Fields, message: Outgoing) -> RunningQueue:
    """The reply queue of a message; fills in the fields of the answer that the queue needs."""
    target = hall.running_queue(fields.reply_to)
    if target is None:
        raise _gone(fields.reply_to)
    _fill_in(fields, message, target.settings.fifo, target.settings.deduplication != "off")
    return target


def _fill_in(fields: Fields, message: Outgoing, fifo: bool, deduplicates: bool) -> None:
    message.correlation_id = message.correlation_id or fields.correlation_id or fields.message_id
    if fifo:
        message.group = message.group or message.correlation_id
    if deduplicates:
        message.deduplication_id = message.deduplication_id or f"answer {fields.message_id}"


def _gone(name: str) -> LonghallError:
    return LonghallError(Code.UNKNOWN_QUEUE, f"There is no queue '{name}' for the answer any more.")


@final
class _Settling(Rider):
    """The settle in the atomic write of an answer."""

    def __init__(self, hall: Hall, queue: RunningQueue, place: tuple[int, int, int], consumer: str) -> None:
        self._hall = hall
        self._queue = queue
        self._place = place
        self._consumer = consumer
        self._events: list[Settled] = []
        self.fields: Fields | None = None

    def is_settled(self) -> bool:
        """True if the message is settled already. Raises if another consumer has it."""
        self._events, (code,) = self._queue.queue.decide_settle(self._hall.time.now_ms(), [self._place])
        if code is not None:
            raise LonghallError(code, "Another consumer has the message now.")
        if self._queue.queue.is_held(*self._place[:2]):
            raise LonghallError(Code.NOT_READY, "A transaction that is being decided has the message; try again.")
        return not self._events

    def check(self) -> None:
        if self._queue.removed:
            raise LonghallError(Code.UNKNOWN_QUEUE, f"Queue '{self._queue.entry.name}' was deleted.")
        check_here(self._queue)
        if self.is_settled():
            raise LonghallError(Code.RECEIPT_SUPERSEDED, "The message was settled meanwhile.")

    def write(self) -> None:
        assert self.fields is not None
        infos = {self._place[:2]: message_info_of(self.fields)}
        write_settles(self._hall, self._queue, self._events, infos, self._consumer, "answered")

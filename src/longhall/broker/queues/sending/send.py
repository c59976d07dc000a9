"""Messages that are sent one by one: each may wait for room in the queue, or until its parts are stored.

The steps are deduplicate, make room, append to the lane or to the staging, and wait for the commit. All other messages
go through `batch_send`.
"""

from __future__ import annotations

from contextlib import nullcontext

import msgspec

from longhall.broker.hall import EVENT_ROOM_BYTES, Hall
from longhall.broker.queues.delays.staging import DelayStager
from longhall.broker.queues.delivery.message_lookup import look_up_record
from longhall.broker.queues.large_messages.reassembly import digest_of
from longhall.broker.queues.large_messages.upload import UploadCompletion, give_up, store_body
from longhall.broker.queues.running_queue import RunningQueue
from longhall.broker.queues.sending.room import make_room
from longhall.broker.queues.sending.rules import (
    ONE_RECORD_BYTES_MAX,
    charge_quota,
    check_quota,
    check_size,
    clear_bytes,
    due_of_send,
    identify,
    record_of,
    repeated_send,
)
from longhall.broker.queues.write import together, write_records
from longhall.broker.waiting import acknowledged
from longhall.errors import Code, LonghallError
from longhall.queues.envelope import RANDOM_BYTES, decode_record, derive_message_id, new_message_id, whole_record
from longhall.queues.messages import Accepted, Outgoing


class Rider:
    """Something that happens in the same step as a send, or not at all."""

    def check(self) -> None:
        """Raises LonghallError if it cannot happen; then nothing is sent."""
        raise NotImplementedError

    def write(self) -> None:
        """Inside the step, behind the message."""
        raise NotImplementedError


async def send_one_by_one(
    hall: Hall, stager: DelayStager, queue: RunningQueue, messages: list[Outgoing]
) -> list[Accepted]:
    """Accept or refuse each of these messages, where each may have to wait; they are acknowledged when this returns.

    Calls for a queue of AMQP have their turns: one that comes while another waits for older messages to go, or until
    its parts are stored, does not overtake it, so that the messages of a channel stay in their order. A queue that lets
    senders wait has no turns.
    """
    is_ordered = queue.settings.amqp is not None and queue.settings.when_full != "wait"
    async with queue.send_turn if is_ordered else nullcontext():
        answers = [await _send_by_itself(hall, stager, queue, message) for message in messages]
    await acknowledged(hall, queue.shard, queue.acknowledgers, queue.in_sync_min)
    return answers


async def send_with(hall: Hall, stager: DelayStager, queue: RunningQueue, message: Outgoing, rider: Rider) -> Accepted:
    """Take one message, together with something else. Not yet committed when this answers; raises what `send` tells."""
    return await _send_any(hall, stager, queue, message, rider)


async def send_parcel(
    hall: Hall, stager: DelayStager, queue: RunningQueue, upload_id: str, parts: int, message: Outgoing
) -> Accepted:
    """Let the parts of an upload be a message: `message` says everything of it but the body."""
    parcel = UploadCompletion(hall, queue, upload_id, parts)
    before = parcel.made_before()
    if before is not None:  # The answer was lost, and it is asked again.
        await acknowledged(hall, queue.shard, queue.acknowledgers, queue.in_sync_min)
        lane = before.first[0]
        known = lane in queue.lanes or lane in queue.hidden
        record = await look_up_record(hall, queue, *before.first) if known else None
        if record is None:
            return Accepted(message_id=derive_message_id(*before.first), repeated=True)
        return Accepted(message_id=decode_record(record, lane).message_id, repeated=True)
    if queue.settings.deduplication == "content" and not message.deduplication_id:
        message.deduplication_id = await digest_of(hall, parcel.manifest())
    answer = await _send_one(hall, stager, queue, msgspec.structs.replace(message, body=b""), parcel)
    if answer.repeated:
        give_up(hall, upload_id)
    await acknowledged(hall, queue.shard, queue.acknowledgers, queue.in_sync_min)
    return answer


async def _send_by_itself(hall: Hall, stager: DelayStager, queue: RunningQueue, message: Outgoing) -> Accepted:
    try:
        return await _send_any(hall, stager, queue, message)
    except LonghallError as error:
        return Accepted(code=error.code, message=str(error))


async def _send_any(
    hall: Hall, stager: DelayStager, queue: RunningQueue, message: Outgoing, rider: Rider | None = None
) -> Accepted:
    settings = queue.settings
    size = clear_bytes(message)
    if size <= settings.message_bytes_max and (size <= ONE_RECORD_BYTES_MAX or not settings.whole_bytes_max):
        return await _send_one(hall, stager, queue, message, None, rider)
    check_size(queue, size)
    if queue.deduplicates:
        identify(queue, message)
        repeated = repeated_send(queue, message, hall.time.now_ms())
        if repeated is not None:
            return repeated
    check_quota(queue, hall.time.now_ms())  # Before its parts are stored for nothing.
    upload_id, parts = await store_body(hall, queue, message.body)
    bodiless = msgspec.structs.replace(message, body=b"")  # The sender may still want to look at its own.
    try:
        return await _send_one(hall, stager, queue, bodiless, UploadCompletion(hall, queue, upload_id, parts), rider)
    finally:
        give_up(hall, upload_id)  # Nothing is left of it if it became a message.


async def _send_one(
    hall: Hall,
    stager: DelayStager,
    queue: RunningQueue,
    message: Outgoing,
    parcel: UploadCompletion | None = None,
    rider: Rider | None = None,
) -> Accepted:
    settings = queue.settings
    size = len(message.body) if parcel is None else parcel.manifest().size_bytes
    if hall.storage_full or not hall.has_room(len(message.body) + EVENT_ROOM_BYTES):
        raise LonghallError(Code.STORAGE_FULL, "the disk is full")
    now_ms = hall.time.now_ms()
    if queue.deduplicates:
        identify(queue, message)
        repeated = repeated_send(queue, message, now_ms)
        if repeated is not None:
            return repeated
    check_quota(queue, now_ms)
    has_waited = await make_room(hall, queue, 1, size)
    if queue.removed:
        raise LonghallError(Code.UNKNOWN_QUEUE, f"Queue '{queue.entry.name}' was deleted.")
    now_ms = hall.time.now_ms()
    if has_waited and queue.deduplicates:  # The same message may have come meanwhile.
        repeated = repeated_send(queue, message, now_ms)
        if repeated is not None:
            return repeated
    charge_quota(queue, size, now_ms)  # What a full queue refuses is not charged.
    due_ms = due_of_send(queue, message.delay_ms, now_ms)
    message_id = message.message_id or new_message_id(hall.world.entropy.bytes(RANDOM_BYTES))
    record = record_of(queue, message, message_id, now_ms, due_ms)
    manifest = parcel.manifest() if parcel is not None else None
    if parcel is not None and manifest is not None:
        record = whole_record(record, parcel.upload_id, manifest.size_bytes, len(manifest.offsets))
    if rider is not None:
        rider.check()
    with together(hall):
        if due_ms:
            lane, offset = stager.stage(queue, record, due_ms, now_ms)
        else:
            partition = queue.lane_for(message.priority, message.group)
            lane = partition.lane
            offset = write_records(hall, partition, [record], now_ms)
        if parcel is not None and manifest is not None:
            parcel.complete(manifest, lane, offset)
        if rider is not None:
            rider.write()
        if hall.usage.meter is not None:
            hall.usage.meter.sent(queue.entry.name, 1, size)
    queue.on_sent(1)
    sequence = queue.sequence_of(lane, offset) if settings.fifo else -1
    return Accepted(message_id=message_id, sequence=sequence)

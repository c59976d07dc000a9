"""Reject: a consumer gives messages up for good. Each dies, and goes where the dead messages of its queue go."""

from __future__ import annotations

from longhall.broker.hall import EVENT_ROOM_BYTES, Hall
from longhall.broker.queues.dead_letters.dead_lettering import dead_letter
from longhall.broker.queues.delivery.message_lookup import look_up_record
from longhall.broker.queues.running_queue import RunningQueue
from longhall.broker.waiting import committed
from longhall.errors import Code, LonghallError
from longhall.queues.outcomes import REJECTED, Candidate, Death


async def reject(hall: Hall, queue: RunningQueue, receipts: list[str]) -> list[Code | None]:
    """Let these messages die; one code for each receipt, None where it is done."""
    if not hall.has_room(EVENT_ROOM_BYTES // 4):
        raise LonghallError(Code.STORAGE_FULL, "the disk is full")
    codes: list[Code | None] = []
    for receipt in receipts:
        verified = queue.receipts.verify(receipt)
        codes.append(verified if isinstance(verified, Code) else await _reject(hall, queue, verified))
    await committed(hall, queue.shard)
    return codes


async def _reject(hall: Hall, queue: RunningQueue, receipt: tuple[int, int, int]) -> Code | None:
    lane, offset, number = receipt
    if lane not in queue.lanes:
        return Code.RECEIPT_SUPERSEDED
    record = await look_up_record(hall, queue, lane, offset)
    lease = queue.queue.lease_of(lane, offset)
    if lease is None or lease[0] != number:
        return Code.RECEIPT_SUPERSEDED
    if queue.queue.is_held(lane, offset):
        return Code.NOT_IN_FLIGHT
    size_bytes = len(record.value or b"") if record is not None else 0
    candidate = Candidate(offset, offset + 1, size_bytes, "", -1, record)
    dead_letter(hall, queue, [Death(lane, offset, REJECTED, lease[2], lease[3], candidate)])
    return None

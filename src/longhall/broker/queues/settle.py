"""Settle, extend and give back: what a consumer says of what it was given."""

from __future__ import annotations

from longhall.broker.hall import EVENT_ROOM_BYTES, Hall
from longhall.broker.queues.running import RunningQueue
from longhall.broker.queues.write import write_queue
from longhall.broker.waiting import committed
from longhall.errors import Code, LonghallError
from longhall.queues.retry import retry_delay_ms


async def settle(hall: Hall, queue: RunningQueue, receipts: list[str]) -> list[Code | None]:
    """The messages are done with; an answer for each receipt."""
    codes = settle_nowait(hall, queue, receipts)
    await committed(hall, queue.shard)
    return codes


def settle_nowait(hall: Hall, queue: RunningQueue, receipts: list[str]) -> list[Code | None]:
    """The same, not yet committed."""
    _check_room(hall)
    codes: list[Code | None] = [None] * len(receipts)
    good: list[tuple[int, int, int]] = []
    places: list[int] = []
    for at, receipt in enumerate(receipts):
        verified = queue.receipts.verify(receipt)
        if isinstance(verified, Code):
            codes[at] = verified
        else:
            good.append(verified)
            places.append(at)
    events, answers = queue.queue.decide_settle(hall.time.now_ms(), good)
    for at, answer in zip(places, answers, strict=True):
        codes[at] = answer
    write_queue(hall, queue, events)
    if events and len(queue.waiters):
        queue.waiters.wake(len(receipts))  # A group or the next of a strict queue may be free now.
    return codes


async def change_leases(hall: Hall, queue: RunningQueue, changes: list[tuple[str, int]]) -> list[Code | None]:
    """Each lease ends so long from now; 0 gives the message back, after the queue's wait for a retry if it has one."""
    _check_room(hall)
    codes: list[Code | None] = []
    returned = 0
    for receipt, lease_ms in changes:
        verified = queue.receipts.verify(receipt)
        if isinstance(verified, Code):
            codes.append(verified)
            continue
        decided = _decide(hall, queue, verified, lease_ms)
        if isinstance(decided, Code):
            codes.append(decided)
            continue
        codes.append(None)
        returned += lease_ms == 0
    if returned:
        queue.waiters.wake(returned)
    await committed(hall, queue.shard)
    return codes


def _decide(hall: Hall, queue: RunningQueue, receipt: tuple[int, int, int], lease_ms: int) -> Code | None:
    lane, offset, number = receipt
    now_ms = hall.time.now_ms()
    lease = queue.queue.lease_of(lane, offset) if lane in queue.lanes else None
    if lease is None:
        return Code.RECEIPT_SUPERSEDED  # It is settled or dead: there is no lease to change any more.
    if lease_ms > 0:
        extended = queue.queue.decide_extend(now_ms, lane, offset, number, lease_ms)
        if isinstance(extended, Code):
            return extended
        write_queue(hall, queue, [extended])
        return None
    delay_ms = retry_delay_ms(queue.settings.retry, lease[2])
    given_back = queue.queue.decide_return(now_ms, lane, offset, number, delay_ms)
    if isinstance(given_back, Code):
        return given_back
    write_queue(hall, queue, [given_back])
    return None


def _check_room(hall: Hall) -> None:
    if not hall.has_room(EVENT_ROOM_BYTES // 4):
        raise LonghallError(Code.STORAGE_FULL, "the disk is full")

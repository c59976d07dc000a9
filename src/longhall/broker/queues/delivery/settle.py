"""Settle, extend and give back: what a consumer says of what it was given."""

from __future__ import annotations

from collections.abc import Mapping

from longhall.broker.hall import EVENT_ROOM_BYTES, Hall
from longhall.broker.pending import Pending, when_committed
from longhall.broker.queues.audit.audit_log import audits, note_settles
from longhall.broker.queues.audit.delivery_report import report
from longhall.broker.queues.delivery.give_back import give_back
from longhall.broker.queues.delivery.lease_timer import arm_lease_timer
from longhall.broker.queues.delivery.message_lookup import Place, cached_traces, look_up_infos
from longhall.broker.queues.running_queue import RunningQueue
from longhall.broker.queues.write import together, write_queue
from longhall.broker.waiting import committed
from longhall.errors import Code, LonghallError
from longhall.queues.delivery_reports import SETTLED, MessageInfo
from longhall.queues.events import Settled
from longhall.queues.receipts import CURRENT, Receipts


def settle(
    hall: Hall, queue: RunningQueue, receipts: list[str], consumer: str = "", accepts: str = CURRENT
) -> Pending[list[Code | None]]:
    """The consumer is done with these messages; one code for each receipt, None where it was settled."""
    pending: Pending[list[Code | None]] = Pending()
    places = _reported_places(queue, receipts)
    infos = cached_traces(queue, places) if places else {}
    if infos is None:
        pending.run(_settle_cold(hall, queue, receipts, places, consumer, accepts))
    else:
        pending.decide(_settle(hall, queue, receipts, infos, consumer, accepts))
        when_committed(hall, queue.shard, pending)
    return pending


async def _settle_cold(
    hall: Hall, queue: RunningQueue, receipts: list[str], places: list[Place], consumer: str, accepts: str
) -> list[Code | None]:
    """As `settle`, for messages whose headers have to be read from the disk first."""
    codes = _settle(hall, queue, receipts, await look_up_infos(hall, queue, places), consumer, accepts)
    await committed(hall, queue.shard)
    return codes


def _reported_places(queue: RunningQueue, receipts: list[str]) -> list[Place]:
    """Messages whose settlement is written to the audit topic or reported to their sender."""
    audited = audits(queue)
    places: list[Place] = []
    for receipt in receipts:
        if audited or Receipts.reports(receipt):
            verified = queue.receipts.verify(receipt)
            if not isinstance(verified, Code):
                places.append(verified[:2])
    return places


def _settle(
    hall: Hall,
    queue: RunningQueue,
    receipts: list[str],
    infos: Mapping[Place, MessageInfo],
    consumer: str,
    accepts: str,
) -> list[Code | None]:
    _check_room(hall)
    verified = [queue.receipts.verify(receipt) for receipt in receipts]
    events, codes = queue.queue.decide_settle(hall.time.now_ms(), verified, accepts)
    queue.on_settled(events)
    if infos:
        with together(hall):
            write_settles(hall, queue, events, infos, consumer)
    else:
        write_queue(hall, queue, events)
        if hall.usage.meter is not None:
            hall.usage.meter.settled(queue.entry.name, count_offsets(events))
    if events and len(queue.waiters):
        queue.waiters.offer(len(receipts))  # A group or the next of a strict queue may be free now.
    return codes


def count_offsets(events: list[Settled]) -> int:
    """The number of messages that these settle."""
    return sum([len(event.offsets) for event in events])


def write_settles(
    hall: Hall,
    queue: RunningQueue,
    events: list[Settled],
    infos: Mapping[Place, MessageInfo],
    consumer: str,
    reason: str = "",
) -> None:
    """Write these with what others hear of them. Inside a step. A reason stands for the fate: its sender has heard."""
    attempts: dict[Place, int] = {}
    for event in events:
        for offset in event.offsets:
            lease = queue.queue.lease_of(event.lane, offset)
            attempts[event.lane, offset] = lease[2] if lease is not None else 0
    write_queue(hall, queue, events)
    if hall.usage.meter is not None:
        hall.usage.meter.settled(queue.entry.name, count_offsets(events))
    if audits(queue):
        note_settles(hall, queue, infos, attempts, consumer, reason)
    for place, count in attempts.items():
        if place in infos:
            queue.delivery_cache.forget(*place)
            if not reason:
                report(hall, queue, infos[place], SETTLED, attempts=count)


async def change_leases(
    hall: Hall,
    queue: RunningQueue,
    changes: list[tuple[str, int]],
    consumer: str = "",
    accepts: str = CURRENT,
    lease_ms_max: int = 0,
) -> list[Code | None]:
    """Each lease ends so long from now; 0 gives the message back, after the queue's wait for a retry if it has one.

    INVALID_REQUEST for a lease that would last over `lease_ms_max` in total; 0 is no bound.
    """
    _check_room(hall)
    codes: list[Code | None] = []
    returned = 0
    for receipt, lease_ms in changes:
        verified = queue.receipts.verify(receipt)
        if isinstance(verified, Code):
            codes.append(verified)
            continue
        if lease_ms > 0:
            decided = _extend(hall, queue, verified, lease_ms, accepts, lease_ms_max)
        else:
            decided = await give_back(hall, queue, verified, consumer, accepts=accepts)
        if isinstance(decided, Code):
            codes.append(decided)
            continue
        codes.append(None)
        returned += lease_ms == 0
    await _available(hall, queue, returned)
    return codes


async def hand_back(hall: Hall, queue: RunningQueue, receipts: list[str]) -> list[Code | None]:
    """Return messages that reached no consumer, at once. Their delivery does not count as an attempt."""
    _check_room(hall)
    codes: list[Code | None] = []
    for receipt in receipts:
        verified = queue.receipts.verify(receipt)
        if isinstance(verified, Code):
            codes.append(verified)
        else:
            codes.append(await give_back(hall, queue, verified, "", unseen=True))
    await _available(hall, queue, codes.count(None))
    return codes


async def _available(hall: Hall, queue: RunningQueue, count: int) -> None:
    """Offer these messages to waiting receivers, and wait for the commit of their return."""
    if len(queue.waiters):
        queue.waiters.offer(count)
        arm_lease_timer(hall, queue)
    await committed(hall, queue.shard)


def _extend(
    hall: Hall, queue: RunningQueue, receipt: tuple[int, int, int], lease_ms: int, accepts: str, lease_ms_max: int
) -> Code | None:
    lane, offset, number = receipt
    if lane not in queue.lanes or queue.queue.lease_of(lane, offset) is None:
        return Code.RECEIPT_SUPERSEDED  # It is settled or dead: there is no lease to change any more.
    now_ms = hall.time.now_ms()
    extended = queue.queue.decide_extend(now_ms, lane, offset, number, lease_ms, accepts, lease_ms_max)
    if isinstance(extended, Code):
        return extended
    write_queue(hall, queue, [extended])
    return None


def _check_room(hall: Hall) -> None:
    if not hall.has_room(EVENT_ROOM_BYTES // 4):
        raise LonghallError(Code.STORAGE_FULL, "the disk is full")

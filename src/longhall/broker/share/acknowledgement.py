"""Acknowledgement: what a share member says of the messages that it holds.

    type       the message
    gap        is settled: the client found no record at its offset
    accept     is settled
    release    is returned: available at once, or after the retry delay of the queue
    reject     moves to the dead-letter queue; without one it is dropped
    renew      stays leased, for a whole lease from now on

The acknowledgements of one partition in one request are carried out together or not at all: if the member does not hold
one of the messages any more, nothing happens and the code is NOT_IN_FLIGHT. The caller waits for the commit.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, final

from longhall.broker.hall import Hall
from longhall.broker.queues.audit.audit_log import audits
from longhall.broker.queues.dead_letters.dead_lettering import dead_letter
from longhall.broker.queues.delivery.give_back import give_back
from longhall.broker.queues.delivery.lease_timer import arm_lease_timer
from longhall.broker.queues.delivery.message_lookup import look_up_infos, look_up_record
from longhall.broker.queues.delivery.receive import check_delivery
from longhall.broker.queues.delivery.settle import write_settles
from longhall.broker.queues.running_queue import RunningQueue
from longhall.broker.queues.write import together, write_queue
from longhall.broker.share.holdings import SETTLED, Holding, is_held
from longhall.errors import Code
from longhall.queues.events import Extended, Settled
from longhall.queues.outcomes import REJECTED, Candidate, Death
from longhall.records.record import Record

GAP: Final = 0
ACCEPT: Final = 1
RELEASE: Final = 2
REJECT: Final = 3
RENEW: Final = 4

Batch = tuple[int, int, Sequence[int]]  # First offset, last offset, and a type for each or one for all.


def check_batches(batches: Iterable[Batch], may_renew: bool) -> str:
    """Why these batches are no acknowledgements; empty if they are."""
    behind = -1
    for first, last, types in batches:
        if first < 0 or last < first:
            return f"The first offset {first} and the last offset {last} are no range."
        if first < behind:
            return "The batches overlap or are not in the order of offsets."
        if len(types) != 1 and len(types) != last - first + 1:
            return "A batch needs one acknowledge type, or one for each offset."
        if any(not GAP <= kind <= (RENEW if may_renew else REJECT) for kind in types):
            return "An acknowledge type is not known, or not allowed in this request."
        behind = last + 1
    return ""


@final
class _Sorted:
    """The offsets of a request by what happens to them."""

    def __init__(self) -> None:
        self.settled: list[int] = []
        self.released: list[int] = []
        self.rejected: list[int] = []
        self.renewed: list[int] = []

    def add(self, offset: int, kind: int) -> None:
        if kind in (GAP, ACCEPT):
            self.settled.append(offset)
        elif kind == RELEASE:
            self.released.append(offset)
        elif kind == REJECT:
            self.rejected.append(offset)
        else:
            self.renewed.append(offset)


async def acknowledge(
    hall: Hall, queue: RunningQueue, holding: Holding, batches: Sequence[Batch], lock_ms: int, consumer: str
) -> Code | None:
    """Carry out acknowledgements that `check_batches` accepts; returns the refusal."""
    check_delivery(hall, queue)
    if sum(last - first + 1 for first, last, _ in batches) > len(holding.numbers):
        return Code.NOT_IN_FLIGHT
    work = _Sorted()
    for first, last, types in batches:
        for offset in range(first, last + 1):
            work.add(offset, types[0] if len(types) == 1 else types[offset - first])
    place_of = holding.place_of
    told = [place_of(offset) for offset in work.settled if audits(queue) or offset in holding.reported]
    infos = await look_up_infos(hall, queue, told) if told else {}
    records = {offset: await look_up_record(hall, queue, *place_of(offset)) for offset in work.rejected}
    now_ms = hall.time.now_ms()
    if queue.removed or not _holds_all(queue, holding, work, now_ms):
        return Code.NOT_IN_FLIGHT
    kept: dict[int, list[int]] = {}
    for offset in work.settled:
        if holding.numbers[offset] != SETTLED:
            lane, position = place_of(offset)
            kept.setdefault(lane, []).append(position)
    if kept:
        events = [Settled(queue=queue.number, lane=lane, offsets=some, at_ms=now_ms) for lane, some in kept.items()]
        queue.on_settled(events)
        with together(hall):
            if infos:
                write_settles(hall, queue, events, infos, consumer)
            else:
                write_queue(hall, queue, events)
    renewed = [place_of(offset) for offset in work.renewed]
    deadline_ms = now_ms + lock_ms
    write_queue(
        hall,
        queue,
        [Extended(queue=queue.number, lane=lane, offset=one, deadline_ms=deadline_ms) for lane, one in renewed],
    )
    dead_letter(hall, queue, [_death(queue, *place_of(offset), records[offset]) for offset in work.rejected])
    for offset in (*work.settled, *work.rejected):
        holding.drop(offset)
    await release(hall, queue, holding, work.released, consumer)
    return None


def _holds_all(queue: RunningQueue, holding: Holding, work: _Sorted, now_ms: int) -> bool:
    numbers = holding.numbers
    for offset in work.settled:
        number = numbers.get(offset, -1)
        if number != SETTLED and not is_held(queue, *holding.place_of(offset), number, now_ms):
            return False
    for offset in (*work.released, *work.rejected, *work.renewed):
        if not is_held(queue, *holding.place_of(offset), numbers.get(offset, -1), now_ms):
            return False
    return True


def _death(queue: RunningQueue, lane: int, offset: int, record: Record | None) -> Death:
    lease = queue.queue.lease_of(lane, offset)
    assert lease is not None
    candidate = Candidate(offset, offset + 1, len(record.value or b"") if record is not None else 0, "", -1, record)
    return Death(lane, offset, REJECTED, lease[2], lease[3], candidate)


async def release(hall: Hall, queue: RunningQueue, holding: Holding, offsets: Sequence[int], consumer: str) -> None:
    """Return these messages of a holding to the queue. A lease that has ended meanwhile is returned already."""
    returned = 0
    for offset in offsets:
        number = holding.numbers.get(offset, SETTLED)
        lane, position = holding.place_of(offset)
        holding.drop(offset)
        if number != SETTLED and not queue.removed:
            returned += await give_back(hall, queue, (lane, position, number), consumer) is None
    if len(queue.waiters):
        queue.waiters.offer(max(returned, 1))
        arm_lease_timer(hall, queue)

"""A replication group as a participant of transactions that settle messages of its queues.

The coordinator, in the main hall, decides the outcome; the group does what it is asked:

    step       the group
    extend     checks that the receipts are current, and lets their leases outlast the transaction
    prepare    checks it again and holds the messages: from here on nothing but the outcome ends their leases
    commit     settles or rejects what it holds for the producer
    abort      gives what it holds its leases back; what a session held is available again

Every step is in the log of the group before its reply, and may be repeated. A request has the epoch of its coordinator
and a number. The epoch is durable with the holds of the queue, the number is known to this process alone: it is enough,
because a request reaches at most one process. So a delayed request changes nothing of a later transaction.

Nothing here knows the state of the transaction.
"""

from __future__ import annotations

from typing import Final, final

import msgspec

from longhall.broker.feature_gates import may_settle_in_groups
from longhall.broker.hall import EVENT_ROOM_BYTES, Hall
from longhall.broker.queues.audit.audit_log import audits
from longhall.broker.queues.consumers.session import SESSION_LEASE_MS
from longhall.broker.queues.dead_letters.dead_lettering import dead_letter
from longhall.broker.queues.delivery.lease_timer import arm_lease_timer
from longhall.broker.queues.delivery.message_lookup import Place, look_up_infos, look_up_record
from longhall.broker.queues.delivery.settle import write_settles
from longhall.broker.queues.running_queue import RunningQueue
from longhall.broker.queues.write import together, write_queue
from longhall.broker.waiting import committed
from longhall.errors import Code
from longhall.queues.delivery_reports import MessageInfo
from longhall.queues.events import Extended, Held, HoldsEnded, Returned
from longhall.queues.outcomes import REJECTED, Candidate, Death
from longhall.queues.receipts import Receipts
from longhall.records.record import Record

EXTEND: Final = "extend"
PREPARE: Final = "prepare"
COMMIT: Final = "commit"
ABORT: Final = "abort"

REJECTED_MARK: Final = "-"  # Before a receipt: the commit rejects the message instead of settling it.
NUMBERS_MAX: Final = 10_000  # Producers of queues whose last request this process knows.

Receipt = tuple[int, int, int]


class SettleRequest(msgspec.Struct, frozen=True, array_like=True, kw_only=True):
    """One step of the settles of one transaction, for the messages of one queue in one group."""

    step: str
    queue: str
    incarnation: bytes  # What the groups of a queue know it by: the id of the topic that it owns, or its own id.
    producer_id: int
    coordinator_epoch: int
    number: int  # It rises with every request of one coordinator epoch.
    receipts: list[str] = []  # Of EXTEND and PREPARE, as the group issued them.
    lease_ms: int = 0  # Of EXTEND: how long the leases last from now, at least.


@final
class TransactionParticipant:
    """The steps of all transactions in one group, at its leader."""

    def __init__(self, hall: Hall) -> None:
        self._hall = hall
        self._numbers = RequestNumbers()

    async def carry_out(self, request: SettleRequest) -> Code | None:
        """Do one step; None or the error, when what it rests on is committed."""
        hall = self._hall
        queue = hall.running_queue(request.queue)
        if queue is None or incarnation_of(queue) != request.incarnation:
            return Code.UNKNOWN_QUEUE
        if queue.is_away or not may_settle_in_groups(hall) or not hall.has_room(EVENT_ROOM_BYTES // 4):
            return Code.NOT_READY  # A queue that moves takes its holds along: the coordinator finds it there.
        if request.step == EXTEND:
            code = self._extend(queue, request)
        elif not self._is_next(queue, request):
            return Code.NOT_LEADER
        elif request.step == PREPARE:
            code = self._prepare(queue, request)
        elif request.step == COMMIT:
            code = await self._commit(queue, request)
        else:
            code = self._abort(queue, request)
        await committed(hall, queue.shard)
        return code

    def _is_next(self, queue: RunningQueue, request: SettleRequest) -> bool:
        """True, and noted, unless a later request or a later coordinator was here before."""
        if request.coordinator_epoch < queue.queue.state.holds.coordinator_epoch:
            return False
        return self._numbers.note(queue.number, request)

    def _extend(self, queue: RunningQueue, request: SettleRequest) -> Code | None:
        decided = extend_leases(self._hall, queue, request.receipts, request.lease_ms)
        if isinstance(decided, Code):
            return decided
        write_queue(self._hall, queue, decided)
        return None

    def _prepare(self, queue: RunningQueue, request: SettleRequest) -> Code | None:
        now_ms, epoch = self._hall.time.now_ms(), request.coordinator_epoch
        places: dict[bool, list[Receipt]] = {False: [], True: []}  # By whether they are rejected.
        reported: list[Place] = []
        for marked in request.receipts:
            receipt = marked.removeprefix(REJECTED_MARK)
            place = queue.receipts.verify(receipt)
            if isinstance(place, Code):
                return place
            places[receipt != marked].append(place)
            if Receipts.reports(receipt):
                reported.append(place[:2])
        events: list[Held] = []
        for rejected, some in places.items():
            decided = queue.queue.decide_hold(now_ms, request.producer_id, epoch, some, reported, rejected)
            if isinstance(decided, Code):
                return decided
            events.extend(decided)
        with together(self._hall):
            write_queue(self._hall, queue, events)
        return None

    async def _commit(self, queue: RunningQueue, request: SettleRequest) -> Code | None:
        hall, state = self._hall, queue.queue.state
        audited = audits(queue)
        first = state.holds.of(request.producer_id)
        places = [place for place, hold in first.items() if not hold.rejected and (audited or hold.reported)]
        infos: dict[Place, MessageInfo] = dict(await look_up_infos(hall, queue, places)) if places else {}
        records = {place: await look_up_record(hall, queue, *place) for place, hold in first.items() if hold.rejected}
        if queue.is_closed:
            return Code.UNKNOWN_QUEUE if queue.removed else Code.NOT_READY
        if not self._numbers.is_last(queue.number, request):
            return Code.NOT_LEADER  # A repeat of this request was faster, and the next transaction may hold messages.
        held = {
            (lane, offset): hold
            for (lane, offset), hold in state.holds.of(request.producer_id).items()
            if state.held_row(lane, offset, hold.number) >= 0
        }
        receipts = [(*place, hold.number) for place, hold in held.items() if not hold.rejected]
        settled, _ = queue.queue.decide_settle(hall.time.now_ms(), receipts)
        deaths = [_death(queue, place, records.get(place)) for place, hold in held.items() if hold.rejected]
        with together(hall):
            queue.on_settled(settled)
            write_settles(hall, queue, settled, infos, "")
            if deaths:
                dead_letter(hall, queue, deaths)
            self._end(queue, request)
        if held and len(queue.waiters):
            queue.waiters.offer(len(held))
        return None

    def _abort(self, queue: RunningQueue, request: SettleRequest) -> Code | None:
        now_ms, state = self._hall.time.now_ms(), queue.queue.state
        returned: list[Returned] = []
        for (lane, offset), hold in state.holds.of(request.producer_id).items():
            row = state.held_row(lane, offset, hold.number)
            leases = state.leases
            if row >= 0 and leases.deadline_ms[row] - leases.leased_ms[row] >= SESSION_LEASE_MS:
                # A session that ended meanwhile could not return it, and one that lasts gets an error and gives it up.
                returned.append(Returned(queue=queue.number, lane=lane, offset=offset, at_ms=now_ms, visible_ms=now_ms))
        with together(self._hall):
            self._end(queue, request)
            write_queue(self._hall, queue, returned)
        if len(queue.waiters):
            queue.waiters.offer()
        arm_lease_timer(self._hall, queue)
        return None

    def _end(self, queue: RunningQueue, request: SettleRequest) -> None:
        """End the holds of the producer. The epoch of a new coordinator is noted also if there are none."""
        holds = queue.queue.state.holds
        if holds.of(request.producer_id) or holds.coordinator_epoch < request.coordinator_epoch:
            ended = HoldsEnded(
                queue=queue.number, producer_id=request.producer_id, coordinator_epoch=request.coordinator_epoch
            )
            write_queue(self._hall, queue, [ended])


@final
class RequestNumbers:
    """The last request of each producer for each queue. What is forgotten beyond the bound counts for all others."""

    def __init__(self, count_max: int = NUMBERS_MAX) -> None:
        self._count_max = count_max
        self._last: dict[tuple[int, int], tuple[int, int]] = {}  # In the order of the requests.
        self._forgotten = (-1, -1)

    def note(self, queue: int, request: SettleRequest) -> bool:
        """Note a request; False for one that a later request has overtaken."""
        key, number = (queue, request.producer_id), (request.coordinator_epoch, request.number)
        if number <= self._last.get(key, self._forgotten):
            return False
        self._last.pop(key, None)
        self._last[key] = number
        if len(self._last) > self._count_max:
            self._forgotten = max(self._forgotten, self._last.pop(next(iter(self._last))))
        return True

    def is_last(self, queue: int, request: SettleRequest) -> bool:
        """True if no later request of this producer has come."""
        last = self._last.get((queue, request.producer_id), self._forgotten)
        return last <= (request.coordinator_epoch, request.number)


def _death(queue: RunningQueue, place: Place, record: Record | None) -> Death:
    lease = queue.queue.lease_of(*place)
    assert lease is not None
    size_bytes = len(record.value or b"") if record is not None else 0
    candidate = Candidate(place[1], place[1] + 1, size_bytes, "", -1, record)
    return Death(place[0], place[1], REJECTED, lease[2], lease[3], candidate)


def incarnation_of(queue: RunningQueue) -> bytes:
    """The incarnation by which the groups of a queue know it."""
    entry = queue.entry
    return entry.topic_id if entry.owns_topic else entry.queue_id


def extend_leases(hall: Hall, queue: RunningQueue, receipts: list[str], lease_ms: int) -> list[Extended] | Code:
    """Let the leases of these receipts last so long from now. The code of the first that is not leased to its holder;
    NOT_IN_FLIGHT if all are settled already, CONCURRENT_TRANSACTIONS if a transaction that is being decided has one.
    """
    now_ms = hall.time.now_ms()
    events: list[Extended] = []
    settled = 0
    queue.queue.tick(now_ms)
    for receipt in receipts:
        place = queue.receipts.verify(receipt.removeprefix(REJECTED_MARK))
        if isinstance(place, Code):
            return place
        lane, offset, number = place
        lease = queue.queue.lease_of(lane, offset) if lane in queue.lanes else None
        if lease is None and lane in queue.lanes and offset < queue.queue.cursor(lane).scan:
            settled += 1
            continue
        if queue.queue.is_held(lane, offset):
            return Code.CONCURRENT_TRANSACTIONS
        if lease is None or lease[0] != number or not queue.queue.is_leased(lane, offset):
            return Code.RECEIPT_SUPERSEDED
        if lease[1] < now_ms + lease_ms:
            decided = queue.queue.decide_extend(now_ms, lane, offset, number, lease_ms)
            if isinstance(decided, Code):
                return decided
            events.append(decided)
    if settled:
        return Code.NOT_IN_FLIGHT if settled == len(receipts) else Code.RECEIPT_SUPERSEDED
    return events

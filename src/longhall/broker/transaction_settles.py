"""Settles in Kafka transactions: a consumer's messages are settled when its producer commits, or not at all.

A producer names the receipts as offsets of the group `longhall.settle.QUEUE`: each offset's metadata has receipts,
separated by spaces (`sendOffsetsToTransaction` of every client). They are stored as pending offsets of that group.

    step       queues of this hall                          queues that other replication groups store
    hold       the receipts are checked, and their leases last until the transaction has ended in any case
    prepare    nothing                                      their groups hold the messages until the outcome
    commit     the settles are in the atomic write of       the groups settle what they hold, after the outcome
               the outcome: no crash comes between them
    abort      the messages stay leased, and are redelivered when their leases end

A commit is refused if a message has left the consumer meanwhile, because it was returned or its queue was deleted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, final

from longhall.broker.feature_gates import may_settle_in_groups
from longhall.broker.hall import Hall
from longhall.broker.queues.audit.audit_log import audits
from longhall.broker.queues.delivery.message_lookup import Place, look_up_infos
from longhall.broker.queues.delivery.settle import write_settles
from longhall.broker.queues.running_queue import RunningQueue
from longhall.broker.queues.write import together, write_queue
from longhall.broker.settle_requests import Part, SettleRequests
from longhall.broker.transaction_participant import REJECTED_MARK, extend_leases
from longhall.errors import Code
from longhall.names import SETTLE_GROUP
from longhall.queues.delivery_reports import MessageInfo
from longhall.queues.events import Extended
from longhall.queues.receipts import Receipts, split_group
from longhall.shards.shard import GROUPS
from longhall.topics.decisions import Markers
from longhall.topics.effects import CommitRequest
from longhall.topics.events import OffsetsPending

RECEIPTS_BYTES_MAX: Final = 64 * 1024  # Of one partition in one transaction: more than a thousand receipts.
LEASE_MARGIN_MS: Final = 10_000  # Leases outlast the transaction by this.

Infos = dict[int, dict[Place, MessageInfo]]
Offset = tuple[str, int]  # The topic and partition that receipts are named with.
Prepared = set[tuple[str, str]]  # Settle groups and receipts of messages that other groups hold.


def settles(group_id: str) -> bool:
    """True if offsets of this group are settles of a queue."""
    return group_id.startswith(SETTLE_GROUP)


@final
class TransactionSettles:
    """The settles of all open transactions of a hall. The groups store them."""

    def __init__(self, hall: Hall) -> None:
        self._hall = hall
        self._requests = SettleRequests(hall)

    async def extend_elsewhere(self, request: CommitRequest, ends_ms: int, rejects: bool = False) -> dict[Offset, Code]:
        """Let the leases of receipts of other groups outlast the transaction, which times out at `ends_ms`; returns
        the codes of the partitions whose receipts are refused.
        """
        queue = self._placed(request.group_id)
        if queue is None:
            return {}
        refused: dict[Offset, Code] = {}
        for topic, partition, _, _, metadata in request.offsets:
            receipts = _receipts(metadata)
            by_group = _by_group(queue, receipts)
            if by_group is None or (not rejects and any(one.startswith(REJECTED_MARK) for one in receipts)):
                refused[topic, partition] = Code.INVALID_RECEIPT
                continue
            lease_ms = ends_ms + LEASE_MARGIN_MS - self._hall.time.now_ms()
            code = await self._requests.extend(queue, by_group, lease_ms)
            if code is not None:
                refused[topic, partition] = code
        return refused

    def hold(
        self,
        request: CommitRequest,
        producer_id: int,
        producer_epoch: int,
        ends_ms: int,
        refused: dict[Offset, Code],
    ) -> dict[Offset, Code]:
        """Store the receipts of a request; returns the codes of the partitions whose receipts are refused, with those
        that other groups have refused before.

        The transaction times out at `ends_ms`. Not committed yet when this returns.
        """
        hall = self._hall
        queue, placed = self._queue_of(request.group_id), self._placed(request.group_id)
        pending = hall.groups_of(request.group_id).pending_metadata(request.group_id, producer_id)
        refused = dict(refused)
        rows: list[tuple[str, int, int, int, str]] = []
        extended: list[Extended] = []
        for topic, partition, offset, leader_epoch, metadata in request.offsets:
            named = _receipts(metadata)
            decided: list[Extended] | Code = Code.UNKNOWN_QUEUE
            if placed is not None:
                decided = refused.get((topic, partition), [])
            elif queue is not None:
                lease_ms = ends_ms + LEASE_MARGIN_MS - hall.time.now_ms()
                decided = extend_leases(hall, queue, named, lease_ms)
            receipts = " ".join(filter(None, (pending.get((topic, partition), ""), *named)))
            if isinstance(decided, Code):
                refused[topic, partition] = decided
            elif len(receipts) > RECEIPTS_BYTES_MAX:
                refused[topic, partition] = Code.OFFSET_METADATA_TOO_LARGE
            else:
                extended.extend(decided)
                rows.append((topic, partition, offset, leader_epoch, receipts))
        if rows:
            event = OffsetsPending(
                group_id=request.group_id,
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                offsets=tuple(rows),
                at_ms=hall.time.now_ms(),
            )
            with together(hall):
                if queue is not None:
                    write_queue(hall, queue, extended)
                hall.append_event(hall.shard_of(request.group_id), GROUPS, event)
                hall.groups_of(request.group_id).apply(event, hall.time.now_ms())
        return refused

    def _queue_of(self, group_id: str) -> RunningQueue | None:
        """The queue of a settle group, if this hall stores it."""
        queue = self._hall.running_queue(group_id.removeprefix(SETTLE_GROUP))
        return queue if queue is not None and not any(lane.elsewhere for lane in queue.route) else None

    def _placed(self, group_id: str) -> RunningQueue | None:
        """The queue of a settle group, if other replication groups store it, and can take part."""
        if not settles(group_id) or not may_settle_in_groups(self._hall):
            return None
        queue = self._hall.running_queue(group_id.removeprefix(SETTLE_GROUP))
        return queue if queue is not None and queue.settings.wings else None

    # Preparing

    async def prepare(
        self, groups: Iterable[str], producer_id: int, is_open: Callable[[], bool]
    ) -> tuple[Code | None, Prepared]:
        """Have other groups hold their messages; the error or None, and what they hold then."""
        parts: dict[Part, list[str]] = {}
        prepared: Prepared = set()
        for group_id in groups:
            receipts = self._held(group_id, producer_id)
            queue = self._placed(group_id) if receipts else None
            if queue is None:
                continue
            by_group = _by_group(queue, receipts)
            if by_group is None:
                return Code.TRANSACTION_ABORTABLE, prepared  # Another queue has this name now.
            prepared.update((group_id, receipt) for receipt in receipts)
            parts.update(((queue.entry.name, group), some) for group, some in by_group.items())
        if not parts:
            return None, prepared
        return await self._requests.prepare(producer_id, parts, is_open), prepared

    # Ending

    def check(self, groups: Iterable[str], producer_id: int, prepared: Prepared) -> Code | None:
        """None if every receipt can be settled; TRANSACTION_ABORTABLE if a message has left its consumer."""
        for group_id in groups:
            receipts = self._held(group_id, producer_id)
            if receipts and self._placed(group_id) is not None:
                if any((group_id, receipt) not in prepared for receipt in receipts):
                    return Code.CONCURRENT_TRANSACTIONS  # Named after the groups were asked: the client tries again.
                continue
            queue = self._queue_of(group_id) if receipts else None
            if receipts and queue is None:
                return Code.TRANSACTION_ABORTABLE
            if queue is not None:
                verified = [queue.receipts.verify(receipt) for receipt in receipts]
                _, codes = queue.queue.decide_settle(self._hall.time.now_ms(), verified)
                if any(code is not None for code in codes):
                    return Code.TRANSACTION_ABORTABLE
        return None

    async def look_up(self, groups: Iterable[str], producer_id: int) -> Infos:
        """What audit and delivery reports need of the messages, by the number of their queue."""
        found: Infos = {}
        for group_id in groups:
            queue = self._queue_of(group_id) if settles(group_id) else None
            if queue is None:
                continue
            places: list[Place] = []
            for receipt in self._held(group_id, producer_id):
                place = queue.receipts.verify(receipt)
                if not isinstance(place, Code) and (audits(queue) or Receipts.reports(receipt)):
                    places.append(place[:2])
            if places:
                found[queue.number] = await look_up_infos(self._hall, queue, places)
        return found

    def write(self, groups: Iterable[str], producer_id: int, infos: Infos) -> None:
        """Settle. Inside the atomic write of the outcome."""
        hall = self._hall
        for group_id in groups:
            queue = self._queue_of(group_id) if settles(group_id) else None
            if queue is not None:
                verified = [queue.receipts.verify(receipt) for receipt in self._held(group_id, producer_id)]
                events, _ = queue.queue.decide_settle(hall.time.now_ms(), verified)
                write_settles(hall, queue, events, infos.get(queue.number, {}), "")
                if events and len(queue.waiters):
                    queue.waiters.offer(len(verified))

    async def end_elsewhere(self, markers: Markers) -> bool:
        """Have other groups carry out the outcome. False if this process stops before that."""
        names: list[str] = []
        for group_id in markers.groups:
            queue = self._hall.running_queue(group_id.removeprefix(SETTLE_GROUP)) if settles(group_id) else None
            if queue is not None and may_settle_in_groups(self._hall):
                if queue.settings.wings or queue.queue.state.holds.of(markers.producer_id):
                    names.append(queue.entry.name)
        return await self._requests.end(markers, names)

    def _held(self, group_id: str, producer_id: int) -> list[str]:
        if not settles(group_id):
            return []
        pending = self._hall.groups_of(group_id).pending_metadata(group_id, producer_id)
        return [receipt for text in pending.values() for receipt in text.split()]


def _receipts(metadata: str | None) -> list[str]:
    """The receipts of an offset. confluent-kafka sends the end of a C string too."""
    return (metadata or "").rstrip("\0").split()


def _by_group(queue: RunningQueue, receipts: list[str]) -> dict[int, list[str]] | None:
    """The receipts by the group that issued them; None if one is not of this queue."""
    found: dict[int, list[str]] = {}
    for receipt in receipts:
        mark = REJECTED_MARK if receipt.startswith(REJECTED_MARK) else ""
        group, rest = split_group(receipt.removeprefix(REJECTED_MARK))
        if len(queue.settings.wings) == 1:
            group = queue.settings.wings[0]  # Another group may have issued it, before the queue moved.
        if group not in queue.settings.wings:
            return None
        found.setdefault(group, []).append(mark + rest)
    return found

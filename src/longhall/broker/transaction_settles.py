"""Settles in Kafka transactions: a consumer's messages are settled when its producer commits, or not at all.

A producer names the receipts as offsets of the group `longhall.settle.QUEUE`: each offset's metadata has receipts,
separated by spaces (`sendOffsetsToTransaction` of every client). They are stored as pending offsets of that group.

    hold      the receipts are checked, and their leases last until the transaction has ended in any case
    commit    the settles are in the atomic write of the outcome: no crash comes between them
    abort     the messages stay leased, and are redelivered when their leases end

A commit is refused if a message has left the consumer meanwhile, because it was returned or its queue was deleted.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, final

from longhall.broker.hall import Hall
from longhall.broker.queues.audit.audit_log import audits
from longhall.broker.queues.delivery.message_lookup import Place, look_up_infos
from longhall.broker.queues.delivery.settle import write_settles
from longhall.broker.queues.running_queue import RunningQueue
from longhall.broker.queues.write import together, write_queue
from longhall.errors import Code
from longhall.queues.delivery_reports import MessageInfo
from longhall.queues.events import Extended
from longhall.queues.receipts import Receipts
from longhall.shards.shard import GROUPS
from longhall.topics.effects import CommitRequest
from longhall.topics.events import OffsetsPending

SETTLE_GROUP: Final = "longhall.settle."
RECEIPTS_BYTES_MAX: Final = 64 * 1024  # Of one partition in one transaction: more than a thousand receipts.
LEASE_MARGIN_MS: Final = 10_000  # Leases outlast the transaction by this.

Infos = dict[int, dict[Place, MessageInfo]]


def settles(group_id: str) -> bool:
    """True if offsets of this group are settles of a queue."""
    return group_id.startswith(SETTLE_GROUP)


@final
class TransactionSettles:
    """The settles of all open transactions of a hall. The groups store them."""

    def __init__(self, hall: Hall) -> None:
        self._hall = hall

    def hold(
        self, request: CommitRequest, producer_id: int, producer_epoch: int, ends_ms: int
    ) -> dict[tuple[str, int], Code]:
        """Store the receipts of a request; returns the codes of the partitions whose receipts are refused.

        The transaction times out at `ends_ms`. Not committed yet when this returns.
        """
        hall = self._hall
        queue = self._queue_of(request.group_id)
        pending = hall.groups_of(request.group_id).pending_metadata(request.group_id, producer_id)
        refused: dict[tuple[str, int], Code] = {}
        rows: list[tuple[str, int, int, int, str]] = []
        extended: list[Extended] = []
        for topic, partition, offset, leader_epoch, metadata in request.offsets:
            named = (metadata or "").rstrip("\0")  # confluent-kafka sends the end of a C string too.
            decided = self._extend(queue, named, ends_ms) if queue is not None else Code.UNKNOWN_QUEUE
            receipts = " ".join(filter(None, (pending.get((topic, partition), ""), named)))
            if isinstance(decided, Code):
                refused[topic, partition] = decided
            elif len(receipts) > RECEIPTS_BYTES_MAX:
                refused[topic, partition] = Code.OFFSET_METADATA_TOO_LARGE
            else:
                extended.extend(decided)
                rows.append((topic, partition, offset, leader_epoch, receipts))
        if rows and queue is not None:
            event = OffsetsPending(
                group_id=request.group_id,
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                offsets=tuple(rows),
                at_ms=hall.time.now_ms(),
            )
            with together(hall):
                write_queue(hall, queue, extended)
                hall.append_event(hall.shard_of(request.group_id), GROUPS, event)
                hall.groups_of(request.group_id).apply(event, hall.time.now_ms())
        return refused

    def _queue_of(self, group_id: str) -> RunningQueue | None:
        """The queue of a settle group, if this hall stores it."""
        queue = self._hall.running_queue(group_id.removeprefix(SETTLE_GROUP))
        return queue if queue is not None and not any(lane.elsewhere for lane in queue.route) else None

    def _extend(self, queue: RunningQueue, text: str, ends_ms: int) -> list[Extended] | Code:
        """Let the leases of these receipts last. The code of the first that is not leased to its holder."""
        now_ms = self._hall.time.now_ms()
        events: list[Extended] = []
        queue.queue.tick(now_ms)
        for receipt in text.split():
            place = queue.receipts.verify(receipt)
            if isinstance(place, Code):
                return place
            lane, offset, number = place
            lease = queue.queue.lease_of(lane, offset) if lane in queue.lanes else None
            if lease is None or lease[0] != number or not queue.queue.is_leased(lane, offset):
                return Code.RECEIPT_SUPERSEDED
            lease_ms = ends_ms + LEASE_MARGIN_MS - now_ms
            if lease[1] < now_ms + lease_ms:
                decided = queue.queue.decide_extend(now_ms, lane, offset, number, lease_ms)
                if isinstance(decided, Code):
                    return decided
                events.append(decided)
        return events

    # Ending

    def check(self, groups: Iterable[str], producer_id: int) -> Code | None:
        """None if every receipt can be settled; TRANSACTION_ABORTABLE if a message has left its consumer."""
        for group_id in groups:
            receipts = self._held(group_id, producer_id)
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

    def _held(self, group_id: str, producer_id: int) -> list[str]:
        if not settles(group_id):
            return []
        pending = self._hall.groups_of(group_id).pending_metadata(group_id, producer_id)
        return [receipt for text in pending.values() for receipt in text.split()]

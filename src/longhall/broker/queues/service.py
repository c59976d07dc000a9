"""The queue service of one replication group: every operation on the queues that this process leads, by name.

It knows nothing of other processes: `service.router` decides where an operation is carried out.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from functools import partial
from typing import Any, final

import msgspec

from longhall.broker.feature_gates import may_forget_sends
from longhall.broker.hall import EVENT_ROOM_BYTES, Hall, HallObserver
from longhall.broker.pending import Pending, completed, started, when_acknowledged, when_committed
from longhall.broker.queues.audit.audit_log import audits, note_lanes
from longhall.broker.queues.consumers.registry import ConsumerRegistry
from longhall.broker.queues.consumers.session import SESSION_LEASE_MS
from longhall.broker.queues.dead_letters.late_arrivals import bury_sends, letters_of_deleted
from longhall.broker.queues.dead_letters.move_bounds import move_target
from longhall.broker.queues.dead_letters.redrive import RedriveTasks
from longhall.broker.queues.delays.staging import DelayStager
from longhall.broker.queues.delivery.receive import receive
from longhall.broker.queues.delivery.receive_any import WeightedReceive, WeightedWish
from longhall.broker.queues.delivery.receive_attempts import ReceiveAttempts
from longhall.broker.queues.delivery.settle import change_leases, hand_back, settle
from longhall.broker.queues.inspection import QueueInspection
from longhall.broker.queues.large_messages import upload
from longhall.broker.queues.large_messages.chunk_collector import ChunkCollector
from longhall.broker.queues.large_messages.reassembly import read_part
from longhall.broker.queues.outbox.arrivals import take_in
from longhall.broker.queues.outbox.outbox_delivery import OutboxDelivery
from longhall.broker.queues.running_queue import MAY_EXPIRE, RunningQueue
from longhall.broker.queues.sending.answer import Permit, answer
from longhall.broker.queues.sending.batch_send import send
from longhall.broker.queues.sending.queue_appends import QueueAppends
from longhall.broker.queues.sending.send import send_parcel
from longhall.broker.queues.sending.settle_with_sends import settle_with_sends
from longhall.broker.queues.upkeep import queue_administration
from longhall.broker.queues.upkeep.expirer import Expirer
from longhall.broker.queues.upkeep.measurement import counts_of, depth_of
from longhall.broker.queues.upkeep.recent_deletions import RecentDeletions
from longhall.broker.queues.upkeep.resizer import Resizer
from longhall.broker.queues.upkeep.rewind import START, Destination, fork, fork_starts, rewind
from longhall.broker.queues.write import check_here, served_queue, together, write_queue, write_staging
from longhall.broker.usage.usage_meter import ACCOUNT, Account
from longhall.broker.waiting import committed
from longhall.errors import Code, LonghallError
from longhall.names import CATALOGUE_SHARD, INTERNAL_PREFIX
from longhall.queues.events import Purged, Switched
from longhall.queues.messages import Accepted, Counts, Delivery, Depth, MoveTask, Outgoing, QueueView, WriteBack
from longhall.queues.outbox_events import OutboxBatch, QueueLocation
from longhall.queues.queue import PURGE_APART_MS
from longhall.queues.receipts import CURRENT
from longhall.queues.settings import QueueSettings

_log = logging.getLogger("longhall.queues")


@final
class QueueService(HallObserver):
    """The queues of one hall, with the background work that they need: delays, moves, expiry, resizing."""

    def __init__(self, hall: Hall) -> None:
        self._hall = hall
        self.stager = DelayStager(hall)
        self.mover = RedriveTasks(hall)
        self.sweeper = ChunkCollector(hall)
        self.expirer = Expirer(hall)
        self.resizer = Resizer(hall)
        self.consumers = ConsumerRegistry(hall)
        self.inspection = QueueInspection(hall)
        hall.queue_appender = QueueAppends(hall, self.resizer, self.stager)
        self.outbox = OutboxDelivery(hall)
        hall.outbox_listener = self.outbox
        self._weighted = WeightedReceive(hall)
        self._attempts = ReceiveAttempts(hall.time)
        self._deleted = RecentDeletions(hall.world.clock)
        hall.observers.append(self)

    def start(self) -> None:
        """Go on with delays and moves."""
        self.stager.start()
        self.mover.start()
        self.sweeper.start()
        self.expirer.start()
        self.resizer.start()
        self.consumers.start()
        self.outbox.start()

    async def stop(self) -> None:
        """Finish what is under way."""
        await self.outbox.stop()
        await self.consumers.stop()
        await self.resizer.stop()
        await self.expirer.stop()
        await self.sweeper.stop()
        await self.mover.stop()
        await self.stager.stop()

    # Administration

    async def create(self, name: str, settings: QueueSettings, deleted_before_ms: int = 0) -> QueueView:
        """Create a queue. QUEUE_EXISTS if the name is taken, QUEUE_DELETED_RECENTLY if it was until a moment ago."""
        if self._hall.running_queue(name) is None:
            self._deleted.check(name, deleted_before_ms)
        return _view(self._hall, await queue_administration.create(self._hall, name, settings))

    async def declare(self, name: str, topic: str, settings: QueueSettings) -> QueueView:
        """Let a topic be consumed as a queue under this name."""
        return _view(self._hall, await queue_administration.declare(self._hall, name, topic, settings))

    async def delete(self, name: str) -> None:
        """Delete a queue with its messages; those that become dead letters are moved first."""
        queue = self._hall.known_queue(name)
        try:
            await queue_administration.delete(self._hall, queue)
        except (LonghallError, OSError, asyncio.CancelledError):
            self.stager.arm(queue)  # It is still there, and its delays go on.
            raise
        self._deleted.add(name)

    @property
    def is_whole(self) -> bool:
        """True: all queues of the hall are here."""
        return True

    def view(self, name: str) -> QueueView | None:
        """The queue of this name."""
        queue = self._hall.running_queue(name)
        return _view(self._hall, queue) if queue is not None else None

    def describe(self, name: str) -> Pending[QueueView]:
        """The queue of this name, once the catalogue is committed. UNKNOWN_QUEUE if there is none."""
        pending: Pending[QueueView] = Pending()
        queue = self._hall.known_queue(name)
        view = _view(self._hall, queue)
        pending.decide(msgspec.structs.replace(view, awaits_owner=True) if self.consumers.awaits_owner(queue) else view)
        when_committed(self._hall, self._hall.shards[CATALOGUE_SHARD], pending)
        return pending

    def names(self, prefix: str) -> list[str]:
        """The names of these queues. Cursors of share groups are not listed."""
        names = [name for name in self._hall.catalogue.queues.by_name if name.startswith(prefix)]
        return sorted(name for name in names if not name.startswith(INTERNAL_PREFIX))

    async def configure(self, name: str, settings: QueueSettings) -> None:
        """Replace the settings of a queue."""
        await queue_administration.configure(self._hall, self._hall.known_queue(name), settings)

    async def switch(self, name: str, paused: bool) -> None:
        """Pause a queue, or resume it; sending goes on meanwhile."""
        queue = self._hall.known_queue(name)
        write_queue(self._hall, queue, [Switched(queue=queue.number, paused=paused)])
        queue.waiters.wake(len(queue.waiters))
        await committed(self._hall, queue.shard)

    def check_purge(self, name: str, apart_ms: int) -> None:
        """Raises PURGE_RUNNING if the last purge of a queue is less than `apart_ms` ago."""
        _decide_purge(self._hall, self._hall.known_queue(name), [], apart_ms)

    async def purge(self, name: str, apart_ms: int = PURGE_APART_MS) -> None:
        """Remove all messages of a queue. The deduplication window is empty afterwards."""
        queue = self._hall.known_queue(name)
        hall = self._hall
        if not hall.has_room(EVENT_ROOM_BYTES // 4):
            raise LonghallError(Code.STORAGE_FULL, "the disk is full")
        ends = [(lane, partition.log.next_offset) for lane, partition in queue.lanes.items()]
        purged = _decide_purge(hall, queue, ends, apart_ms)
        with together(hall):
            write_queue(hall, queue, [purged])
            if audits(queue):
                note_lanes(hall, queue, "purged", ends)
            staged = queue.staging.decide_purge()
            if staged is not None:
                write_staging(hall, queue, [staged])
        self.stager.arm(queue)
        await committed(hall, queue.shard)

    def depth(self, name: str) -> Depth:
        """The message counts and the size of a queue."""
        return depth_of(self._hall, served_queue(self._hall, name))

    def counts(self, name: str) -> Counts:
        """The counters of a queue."""
        return counts_of(served_queue(self._hall, name))

    def sources(self, name: str) -> list[str]:
        """The queues that have this one as their dead-letter queue."""
        return self._hall.catalogue.queues.sources(name)

    # Messages

    def send(self, name: str, messages: list[Outgoing]) -> Pending[list[Accepted]]:
        """Accept or refuse each of these messages. Those for a deleted queue may become dead letters."""
        queue = self._hall.running_queue(name)
        if queue is not None:
            check_here(queue)
            return send(self._hall, self.stager, queue, messages)
        letters = letters_of_deleted(self._hall, name)
        if letters is None:
            raise LonghallError(Code.UNKNOWN_QUEUE, f"There is no queue '{name}'.")
        pending: Pending[list[Accepted]] = Pending()
        answers = bury_sends(self._hall, letters, name, messages)
        if self._hall.usage.meter is not None:
            accepted = [one.body for one, answer in zip(messages, answers, strict=True) if answer.code is None]
            self._hall.usage.meter.sent(letters.name, len(accepted), sum([len(body) for body in accepted]))
        pending.decide(answers)
        shard, acknowledgers = letters.acknowledgement(self._hall)
        when_acknowledged(self._hall, shard, pending, acknowledgers)
        return pending

    def receive(
        self,
        name: str,
        count_max: int,
        wait_ms: int = -1,
        lease_ms: int = -1,
        attempt_id: str = "",
        filter: str = "",
        consumer: str = "",
        in_parts: bool = True,
    ) -> Pending[list[Delivery]]:
        """Deliver messages; the same ones again to a receiver that repeats a request under its `attempt_id`.

        -1 is the queue's own wait or lease. With a filter (a selector, or a policy in JSON) only messages that match;
        the others stay for other receivers. A message that is too large for one reply goes to receivers that can read
        `in_parts`. What is leased to a receiver that goes away before the commit is returned to the queue.
        """
        queue = served_queue(self._hall, name)
        repeated = self._attempts.find(queue, attempt_id) if attempt_id else None
        if repeated is not None:
            return completed(repeated)
        wait_ms = wait_ms if wait_ms >= 0 else queue.settings.wait_ms
        lease_ms = _lease_of_client(lease_ms, queue)
        pending = receive(self._hall, queue, count_max, wait_ms, lease_ms, filter, consumer, in_parts)
        if attempt_id:
            return started(self._remember_attempt(queue, attempt_id, pending))
        pending.when_abandoned(partial(self._return_undelivered, queue, ACCOUNT.get()))
        return pending

    async def _remember_attempt(
        self, queue: RunningQueue, attempt_id: str, pending: Pending[list[Delivery]]
    ) -> list[Delivery]:
        deliveries = await pending
        if deliveries:
            self._attempts.remember(queue, attempt_id, deliveries)
        return deliveries

    def _return_undelivered(self, queue: RunningQueue, account: Account | None, deliveries: list[Delivery]) -> None:
        """Return messages whose receiver disconnected between the lease and the commit."""
        meter = self._hall.usage.meter
        if meter is not None:
            size = sum([delivery.whole_bytes or len(delivery.body) for delivery in deliveries])
            meter.pushed(account, queue.entry.name, -len(deliveries), -size)
        receipts = [delivery.receipt for delivery in deliveries if delivery.receipt]
        if receipts:
            started(hand_back(self._hall, queue, receipts)).when_done(_log_failure)

    async def receive_any(self, weights: Mapping[str, int], wish: WeightedWish) -> list[tuple[str, Delivery]]:
        """Messages of several queues, each with its queue's name; service follows the weights."""
        _check_lease(wish.lease_ms)
        return await self._weighted.receive(weights, wish)

    # Messages in parts

    async def begin(self, name: str) -> str:
        """Open an upload for a message that comes in parts; its id. It runs out an hour after its last part."""
        return await upload.begin(self._hall, served_queue(self._hall, name))

    async def add(self, name: str, upload_id: str, number: int, part: bytes) -> None:
        """Store a part; numbers begin at 0. A part that is sent again replaces the first one."""
        await upload.store(self._hall, served_queue(self._hall, name), upload_id, number, part)

    async def finish(self, name: str, upload_id: str, parts: int, message: Outgoing) -> Accepted:
        """Send the parts as one message, with everything but the body as in `message`."""
        return await send_parcel(self._hall, self.stager, served_queue(self._hall, name), upload_id, parts, message)

    async def abort(self, name: str, upload_id: str) -> None:
        """Discard an upload with its parts."""
        await upload.abort(self._hall, served_queue(self._hall, name), upload_id)

    async def read_part(self, name: str, receipt: str, number: int) -> bytes:
        """A part of a message that was delivered in parts, for the holder of its receipt."""
        return await read_part(self._hall, served_queue(self._hall, name), receipt, number)

    def settle(
        self, name: str, receipts: list[str], consumer: str = "", accepts: str = CURRENT
    ) -> Pending[list[Code | None]]:
        """Settle these messages."""
        return settle(self._hall, served_queue(self._hall, name), receipts, consumer, accepts)

    async def settle_with_sends(
        self, name: str, receipts: list[str], sends: list[WriteBack], consumer: str = ""
    ) -> list[list[Accepted]]:
        """Settle messages and send others in one atomic step, to any queues and to topics of this replication group."""
        carrier = self.outbox.carrier
        return await settle_with_sends(
            self._hall, self.stager, carrier, served_queue(self._hall, name), receipts, sends, consumer
        )

    async def change_lease(
        self,
        name: str,
        changes: list[tuple[str, int]],
        consumer: str = "",
        accepts: str = CURRENT,
        lease_ms_max: int = 0,
    ) -> list[Code | None]:
        """Set the time for which each lease lasts from now; 0 returns the message to the queue."""
        for _, lease_ms in changes:
            _check_lease(lease_ms)
        return await change_leases(self._hall, served_queue(self._hall, name), changes, consumer, accepts, lease_ms_max)

    async def hand_back(self, name: str, receipts: list[str]) -> list[Code | None]:
        """Return messages that reached no consumer. Their delivery does not count as an attempt."""
        return await hand_back(self._hall, served_queue(self._hall, name), receipts)

    async def answer(
        self, name: str, receipt: str, message: Outgoing, consumer: str = "", permit: Permit | None = None
    ) -> Accepted:
        """Send an answer to the reply queue that the message of this receipt names, and settle it, in one step.

        INVALID_REQUEST if it names none, UNKNOWN_QUEUE if that queue is gone; then nothing is settled. The answer has
        the correlation id of the message, or its message id if there is none. `permit` raises if the consumer may not
        write to the reply queue.
        """
        carrier = self.outbox.carrier
        return await answer(
            self._hall, self.stager, carrier, served_queue(self._hall, name), receipt, message, consumer, permit
        )

    # Rewinds and forks

    async def rewind(self, name: str, to: Destination) -> None:
        """Deliver again from "start", from a time in milliseconds, or from an offset for each lane."""
        await rewind(self._hall, served_queue(self._hall, name), to)

    async def fork(
        self, name: str, new_name: str, start: Destination = START, settings: QueueSettings | None = None
    ) -> QueueView:
        """Create a second queue with a cursor of its own over the same log, which begins at `start`."""
        return _view(self._hall, await fork(self._hall, served_queue(self._hall, name), new_name, start, settings))

    async def fork_starts(self, name: str, start: Destination = START) -> dict[int, int]:
        """The offsets at which a fork would begin, by partition, of the partitions that this group stores."""
        return await fork_starts(self._hall, served_queue(self._hall, name), start)

    async def declare_placed(
        self, name: str, topic_id: bytes, settings: QueueSettings, starts: dict[int, int]
    ) -> QueueView:
        """Create a queue over a topic that other groups store; they begin at these offsets, by partition."""
        return _view(
            self._hall, await queue_administration.declare_placed(self._hall, name, topic_id, settings, starts)
        )

    # Messages between groups

    async def locate(self, name: str) -> QueueLocation:
        """The incarnation of a queue, when it is committed."""
        queue = self._hall.known_queue(name)
        settings = queue.settings
        await committed(self._hall, self._hall.shards[CATALOGUE_SHARD])
        needs_id = settings.delivery == "exactly-once" and settings.deduplication != "content"
        refuses = settings.when_full == "refuse" and bool(settings.messages_max or settings.bytes_max)
        return QueueLocation(
            queue.entry.topic_id, settings.message_bytes_max, settings.fifo, queue.deduplicates, needs_id, refuses
        )

    def check_room(self, name: str, count: int, size_bytes: int) -> None:
        """Raises QUEUE_FULL if a queue has no room for so many messages now."""
        queue = served_queue(self._hall, name)
        code = queue.queue.decide_send(count, size_bytes, queue.staging.count)
        if isinstance(code, Code):
            raise LonghallError(code, f"'{name}' is full")

    async def take_in(self, name: str, topic_id: bytes, batch: OutboxBatch) -> int:
        """Store messages of another group's outbox, each once; the first offset without room, or behind the batch."""
        queue = served_queue(self._hall, name)
        if queue.entry.topic_id != topic_id:
            raise LonghallError(Code.UNKNOWN_QUEUE, f"The queue '{name}' that is meant is gone.")
        return await take_in(self._hall, self.stager, queue, batch)

    # list[MoveTask]

    async def start_move(
        self, source: str, target: str, rate_max: int, ids: list[str] | None = None, filter: str = ""
    ) -> MoveTask:
        """Move the messages of a queue to another, or each back to where it came from.

        With ids only those messages, with a filter (a selector, or a policy in JSON) only those that match.
        """
        if target and move_target(self._hall, target) is None:
            raise LonghallError(Code.UNKNOWN_QUEUE, f"There is no queue '{target}'.")
        return await self.mover.start_move(served_queue(self._hall, source), target, rate_max, ids or [], filter)

    async def cancel_move(self, task_id: str, queue: str = "") -> MoveTask:
        """Stop a move, of this queue if one is named."""
        return await self.mover.cancel_move(task_id, queue)

    def moves(self, source: str) -> list[MoveTask]:
        """The moves of a queue, the newest first."""
        return self.mover.moves(served_queue(self._hall, source))

    def queue_placed(self, queue: RunningQueue) -> None:
        """This group serves a queue from now on, or does not any more."""
        queue.waiters.wake(len(queue.waiters))
        if not queue.is_away:
            queue.expiry = MAY_EXPIRE
            self.stager.arm(queue)
        self.consumers.queue_placed(queue)


def _lease_of_client(lease_ms: int, queue: RunningQueue) -> int:
    """The lease that a receive asks for; -1 is the queue's own. One as long as that of a session would end with the
    leadership of this node, as those of sessions do.
    """
    if lease_ms < 0:
        return min(queue.settings.lease_ms, SESSION_LEASE_MS - 1)
    _check_lease(lease_ms)
    return lease_ms


def _check_lease(lease_ms: int) -> None:
    if lease_ms >= SESSION_LEASE_MS:
        raise LonghallError(Code.INVALID_REQUEST, "a lease lasts less than 365 days")


def _log_failure(done: Pending[Any]) -> None:
    if done.error is not None:
        _log.info("undelivered messages stay leased until their leases end", extra={"reason": str(done.error)})


def _view(hall: Hall, queue: RunningQueue) -> QueueView:
    """Kept until something of it changes: every request asks."""
    entry = queue.entry
    view = queue.view
    paused = queue.queue.state.paused
    if (
        view is None
        or view.settings is not entry.settings
        or view.modified_ms != entry.modified_ms
        or view.paused != paused
    ):
        view = queue.view = QueueView(
            name=entry.name,
            queue_id=entry.queue_id.hex(),
            settings=entry.settings,
            created_ms=entry.created_ms,
            modified_ms=entry.modified_ms,
            paused=paused,
            topic="" if entry.owns_topic else hall.topic_name(entry.topic_id),
        )
    return view


def _decide_purge(hall: Hall, queue: RunningQueue, ends: list[tuple[int, int]], apart_ms: int) -> Purged:
    purged = queue.queue.decide_purge(hall.time.now_ms(), ends, apart_ms, forgets=may_forget_sends(hall))
    if isinstance(purged, Code):
        raise LonghallError(purged, "the queue was purged less than a minute ago")
    return purged

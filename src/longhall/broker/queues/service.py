"""The queue service of one replication group: every operation on the queues that this process leads, by name.

It knows nothing of other processes: `service.router` decides where an operation is carried out.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from functools import partial
from typing import Any, Final, final

import msgspec

from longhall.broker.feature_gates import may_forget_sends
from longhall.broker.hall import EVENT_ROOM_BYTES, Hall, HallObserver
from longhall.broker.pending import Pending, completed, started, when_acknowledged, when_committed
from longhall.broker.queues.audit.audit_log import audits, note_lanes
from longhall.broker.queues.consumers.registry import ConsumerRegistry
from longhall.broker.queues.consumers.session import SESSION_LEASE_MS
from longhall.broker.queues.dead_letters.late_arrivals import bury_sends, letters_of_deleted
from longhall.broker.queues.dead_letters.letters import Attributes, edit_letter, letter, letters
from longhall.broker.queues.dead_letters.move_bounds import move_target
from longhall.broker.queues.dead_letters.redrive import RedriveTasks
from longhall.broker.queues.delays.staging import DelayStager
from longhall.broker.queues.delivery.browse import Sought, browse
from longhall.broker.queues.delivery.receive import receive
from longhall.broker.queues.delivery.receive_any import WeightedReceive, WeightedWish
from longhall.broker.queues.delivery.settle import change_leases, hand_back, settle
from longhall.broker.queues.large_messages import upload
from longhall.broker.queues.large_messages.chunk_collector import ChunkCollector
from longhall.broker.queues.large_messages.reassembly import read_part
from longhall.broker.queues.outbox.arrivals import take_in
from longhall.broker.queues.outbox.outbox_delivery import OutboxDelivery
from longhall.broker.queues.running_queue import MAY_EXPIRE, RunningQueue
from longhall.broker.queues.sending.answer import answer
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
from longhall.broker.queues.write import check_here, together, write_queue, write_staging
from longhall.broker.usage.usage_meter import ACCOUNT, Account
from longhall.broker.waiting import committed
from longhall.errors import Code, LonghallError
from longhall.names import CATALOGUE_SHARD, INTERNAL_PREFIX
from longhall.queues.events import Purged, Switched
from longhall.queues.messages import (
    Accepted,
    Counts,
    Delivery,
    Depth,
    Letter,
    LetterPage,
    MoveTask,
    Outgoing,
    Page,
    QueueView,
    WriteBack,
)
from longhall.queues.outbox_events import OutboxBatch, QueueLocation
from longhall.queues.queue import PURGE_APART_MS
from longhall.queues.receipts import CURRENT
from longhall.queues.settings import QueueSettings

ATTEMPT_MS: Final = 300_000  # How long a repeated receive gets the same messages.
ATTEMPTS_MAX: Final = 10_000


_log = logging.getLogger("longhall.queues")

# The verb `list` hides the type of that name inside the class.
Views = list[QueueView]
Names = list[str]
Starts = dict[int, int]
Outgoings = list[Outgoing]
Accepteds = list[Accepted]
Deliveries = list[Delivery]
AnyDeliveries = list[tuple[str, Delivery]]
Codes = list[Code | None]
Changes = list[tuple[str, int]]
Moves = list[MoveTask]
WriteBacks = list[WriteBack]
Results = list[list[Accepted]]


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
        hall.queue_appender = QueueAppends(hall, self.resizer, self.stager)
        self.outbox = OutboxDelivery(hall)
        hall.outbox_listener = self.outbox
        self._service = WeightedReceive(hall)
        self._attempts: dict[tuple[int, str], tuple[int, Deliveries]] = {}
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

    # The queue as a thing

    async def create(self, name: str, settings: QueueSettings, deleted_before_ms: int = 0) -> QueueView:
        """Create a queue. QUEUE_EXISTS if the name is taken, QUEUE_DELETED_RECENTLY if it was until a moment ago."""
        if self._hall.running_queue(name) is None:
            self._deleted.check(name, deleted_before_ms)
        return _view(await queue_administration.create(self._hall, name, settings))

    async def declare(self, name: str, topic: str, settings: QueueSettings) -> QueueView:
        """Let a topic be consumed as a queue under this name."""
        return _view(await queue_administration.declare(self._hall, name, topic, settings))

    async def delete(self, name: str) -> None:
        """The queue and everything in it; what its dead letters want goes there first."""
        queue = self._find(name)
        try:
            await queue_administration.delete(self._hall, queue)
        except (LonghallError, OSError, asyncio.CancelledError):
            self.stager.arm(queue)  # It is still there, and its delays go on.
            raise
        self._deleted.add(name)

    def view(self, name: str) -> QueueView | None:
        """The queue of this name."""
        queue = self._hall.running_queue(name)
        return _view(queue) if queue is not None else None

    def describe(self, name: str) -> Pending[QueueView]:
        """The queue of this name, when all that is known of it is committed. UNKNOWN_QUEUE if there is none."""
        pending: Pending[QueueView] = Pending()
        queue = self._find(name)
        view = _view(queue)
        pending.decide(msgspec.structs.replace(view, awaits_owner=True) if self.consumers.awaits_owner(queue) else view)
        when_committed(self._hall, self._hall.shards[CATALOGUE_SHARD], pending)
        return pending

    def list(self, prefix: str) -> Views:
        """All queues whose names begin so, by name."""
        return [_view(self._find(name)) for name in self.names(prefix)]

    def names(self, prefix: str) -> Names:
        """Only what they are called. Cursors of share groups are not listed."""
        names = [name for name in self._hall.catalogue.queues.by_name if name.startswith(prefix)]
        return sorted(name for name in names if not name.startswith(INTERNAL_PREFIX))

    async def configure(self, name: str, settings: QueueSettings) -> None:
        """Other settings from now on."""
        await queue_administration.configure(self._hall, self._find(name), settings)

    async def switch(self, name: str, paused: bool) -> None:
        """Pause a queue, or resume it; sending goes on meanwhile."""
        queue = self._find(name)
        write_queue(self._hall, queue, [Switched(queue=queue.number, paused=paused)])
        queue.waiters.wake(len(queue.waiters))
        await committed(self._hall, queue.shard)

    def check_purge(self, name: str, apart_ms: int) -> None:
        """Raises PURGE_RUNNING if the last purge of a queue is less than `apart_ms` ago."""
        _decide_purge(self._hall, self._find(name), [], apart_ms)

    async def purge(self, name: str, apart_ms: int = PURGE_APART_MS) -> None:
        """Everything that is in the queue now is gone, and what was sent can be sent again under the same ids."""
        queue = self._find(name)
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
        """How full it is."""
        return depth_of(self._hall, self._serving(name))

    def counts(self, name: str) -> Counts:
        """What it has counted."""
        return counts_of(self._serving(name))

    def sources(self, name: str) -> Names:
        """Queues whose dead letters go here."""
        return self._hall.catalogue.queues.sources(name)

    # Messages

    def send(self, name: str, messages: Outgoings) -> Pending[Accepteds]:
        """Accept or refuse each of these messages. Those for a deleted queue may become dead letters."""
        queue = self._hall.running_queue(name)
        if queue is not None:
            check_here(queue)
            return send(self._hall, self.stager, queue, messages)
        letters = letters_of_deleted(self._hall, name)
        if letters is None:
            raise _unknown(name)
        pending: Pending[Accepteds] = Pending()
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
    ) -> Pending[Deliveries]:
        """Deliver messages; the same ones again to a receiver that repeats a request under its `attempt_id`.

        -1 is the queue's own wait or lease. With a filter (a selector, or a policy in JSON) only messages that match;
        the others stay for other receivers. A message that is too large for one reply goes to receivers that can read
        `in_parts`. What is leased to a receiver that goes away before the commit is returned to the queue.
        """
        queue = self._serving(name)
        repeated = self._repeated(queue, attempt_id) if attempt_id else None
        if repeated is not None:
            return completed(repeated)
        wait_ms = wait_ms if wait_ms >= 0 else queue.settings.wait_ms
        lease_ms = _lease_of_client(lease_ms, queue)
        pending = receive(self._hall, queue, count_max, wait_ms, lease_ms, filter, consumer, in_parts)
        if attempt_id:
            return started(self._remember_attempt(queue, attempt_id, pending))
        pending.when_abandoned(partial(self._return_undelivered, queue, ACCOUNT.get()))
        return pending

    async def _remember_attempt(self, queue: RunningQueue, attempt_id: str, pending: Pending[Deliveries]) -> Deliveries:
        deliveries = await pending
        if deliveries:
            if len(self._attempts) >= ATTEMPTS_MAX:
                self._attempts.pop(next(iter(self._attempts)))
            self._attempts[queue.number, attempt_id] = (self._hall.time.now_ms(), deliveries)
        return deliveries

    def _return_undelivered(self, queue: RunningQueue, account: Account | None, deliveries: Deliveries) -> None:
        """The receiver has gone away between the lease and the commit."""
        meter = self._hall.usage.meter
        if meter is not None:
            size = sum([delivery.whole_bytes or len(delivery.body) for delivery in deliveries])
            meter.pushed(account, queue.entry.name, -len(deliveries), -size)
        receipts = [delivery.receipt for delivery in deliveries if delivery.receipt]
        if receipts:
            started(hand_back(self._hall, queue, receipts)).when_done(_log_failure)

    async def receive_any(
        self,
        weights: Mapping[str, int],
        count_max: int,
        wait_ms: int,
        lease_ms: int,
        filter: str = "",
        consumer: str = "",
        in_parts: bool = True,
    ) -> AnyDeliveries:
        """Messages of several queues, each with its queue's name; service follows the weights."""
        _check_lease(lease_ms)
        wish = WeightedWish(count_max, wait_ms, lease_ms, filter, consumer, in_parts)
        return await self._service.receive(weights, wish)

    def _repeated(self, queue: RunningQueue, attempt_id: str) -> Deliveries | None:
        """What an earlier request of this id got, if it is all still leased to it."""
        found = self._attempts.get((queue.number, attempt_id))
        if found is None:
            return None
        now_ms = self._hall.time.now_ms()
        for delivery in found[1]:
            receipt = queue.receipts.verify(delivery.receipt)
            lease = None if isinstance(receipt, Code) else queue.queue.lease_of(receipt[0], receipt[1])
            fresh = lease is not None and not isinstance(receipt, Code) and lease[0] == receipt[2]
            if not fresh or lease is None or lease[1] <= now_ms or now_ms - found[0] > ATTEMPT_MS:
                del self._attempts[queue.number, attempt_id]
                return None
        return found[1]

    # Messages in parts

    async def begin(self, name: str) -> str:
        """Open an upload for a message that comes in parts; its id. It runs out an hour after its last part."""
        return await upload.begin(self._hall, self._serving(name))

    async def add(self, name: str, upload_id: str, number: int, part: bytes) -> None:
        """Keep a part, durably: numbers begin at 0, and one that comes again takes the place of the first.

        A part has at most `upload.PART_BYTES_MAX`.
        """
        await upload.store(self._hall, self._serving(name), upload_id, number, part)

    async def finish(self, name: str, upload_id: str, parts: int, message: Outgoing) -> Accepted:
        """All parts are here: they are a message now, with everything but the body as `message` says."""
        return await send_parcel(self._hall, self.stager, self._serving(name), upload_id, parts, message)

    async def abort(self, name: str, upload_id: str) -> None:
        """Give up an upload."""
        await upload.abort(self._hall, self._serving(name), upload_id)

    async def read_part(self, name: str, receipt: str, number: int) -> bytes:
        """A part of a message that was given out with `parts`, for whoever holds its receipt."""
        return await read_part(self._hall, self._serving(name), receipt, number)

    def settle(self, name: str, receipts: Names, consumer: str = "", accepts: str = CURRENT) -> Pending[Codes]:
        """The consumer is done with these messages."""
        return settle(self._hall, self._serving(name), receipts, consumer, accepts)

    async def settle_with_sends(self, name: str, receipts: Names, sends: WriteBacks, consumer: str = "") -> Results:
        """Settle messages and send others in one atomic step, to any queues and to topics of this replication group."""
        carrier = self.outbox.carrier
        return await settle_with_sends(self._hall, self.stager, carrier, self._serving(name), receipts, sends, consumer)

    async def change_lease(
        self, name: str, changes: Changes, consumer: str = "", accepts: str = CURRENT, lease_ms_max: int = 0
    ) -> Codes:
        """Leases end at another time; 0 gives back."""
        for _, lease_ms in changes:
            _check_lease(lease_ms)
        return await change_leases(self._hall, self._serving(name), changes, consumer, accepts, lease_ms_max)

    async def hand_back(self, name: str, receipts: Names) -> Codes:
        """Messages that nobody was shown are available again, and that was no attempt."""
        return await hand_back(self._hall, self._serving(name), receipts)

    async def answer(self, name: str, receipt: str, message: Outgoing, consumer: str = "") -> Accepted:
        """Send an answer to the reply queue that the message of this receipt names, and settle it, in one step.

        INVALID_REQUEST when it names none, UNKNOWN_QUEUE when that is gone: then nothing has happened. The answer has
        the message's correlation id, or its message id where it has none.
        """
        carrier = self.outbox.carrier
        return await answer(self._hall, self.stager, carrier, self._serving(name), receipt, message, consumer)

    # Again, and without taking

    async def rewind(self, name: str, to: Destination) -> None:
        """Give out again from "start", from a time in milliseconds, or from an offset for each lane."""
        await rewind(self._hall, self._serving(name), to)

    async def fork(
        self, name: str, new_name: str, start: Destination = START, settings: QueueSettings | None = None
    ) -> QueueView:
        """A second queue with a cursor of its own over the same log, from there on."""
        return _view(await fork(self._hall, self._serving(name), new_name, start, settings))

    async def fork_starts(self, name: str, start: Destination = START) -> Starts:
        """Where a fork would begin, by partition: of the partitions that this group stores."""
        return await fork_starts(self._hall, self._serving(name), start)

    async def declare_placed(self, name: str, topic_id: bytes, settings: QueueSettings, starts: Starts) -> QueueView:
        """Create a queue over a topic that other groups store; they begin at these offsets, by partition."""
        return _view(await queue_administration.declare_placed(self._hall, name, topic_id, settings, starts))

    async def peek(self, name: str, count_max: int, from_offset: int | str = "", settled: bool = False) -> Page:
        """Messages with their state, without taking them; `settled` shows what is done with as well."""
        return await browse(self._hall, self._serving(name), Sought(settled=settled), count_max, from_offset)

    async def leased(self, name: str, count_max: int, from_offset: int | str = "") -> Page:
        """The messages that somebody has now."""
        return await browse(self._hall, self._serving(name), Sought(leased=True), count_max, from_offset)

    async def search(
        self,
        name: str,
        filter: str = "",
        text: str = "",
        from_ms: int = 0,
        until_ms: int = 0,
        count_max: int = 100,
        from_offset: int | str = "",
        settled: bool = False,
    ) -> Page:
        """The same for those that fit: by attributes, by what is in their bodies, by when they were sent."""
        sought = Sought(filter, text, from_ms, until_ms, settled)
        return await browse(self._hall, self._serving(name), sought, count_max, from_offset)

    # Dead letters, and any other message one by one

    async def letters(self, name: str, count_max: int = 100, from_: str = "") -> LetterPage:
        """What is in a queue with all that is known of each, from the place on that the page before told."""
        return await letters(self._hall, self._serving(name), count_max, from_)

    async def letter(self, name: str, message_id: str) -> Letter:
        """One of them; UNKNOWN_MESSAGE if it is not there."""
        return await letter(self._hall, self._serving(name), message_id)

    async def edit_letter(
        self,
        name: str,
        message_id: str,
        body: bytes | None = None,
        attributes: Attributes | None = None,
        seal: bytes = b"",
    ) -> Letter:
        """Replace its body, its attributes (all of them) or both; MESSAGE_LEASED while somebody has it."""
        return await edit_letter(self._hall, self._serving(name), message_id, body, attributes, seal)

    # Messages between groups

    async def locate(self, name: str) -> QueueLocation:
        """The incarnation of a queue, when it is committed."""
        queue = self._find(name)
        settings = queue.settings
        await committed(self._hall, self._hall.shards[CATALOGUE_SHARD])
        needs_id = settings.delivery == "exactly-once" and settings.deduplication != "content"
        return QueueLocation(
            queue.entry.topic_id, settings.message_bytes_max, settings.fifo, queue.deduplicates, needs_id
        )

    async def take_in(self, name: str, topic_id: bytes, batch: OutboxBatch) -> int:
        """Store messages of another group's outbox, each once; the first offset without room, or behind the batch."""
        queue = self._serving(name)
        if queue.entry.topic_id != topic_id:
            raise LonghallError(Code.UNKNOWN_QUEUE, f"The queue '{name}' that is meant is gone.")
        return await take_in(self._hall, self.stager, queue, batch)

    # Moves

    async def start_move(
        self, source: str, target: str, rate_max: int, ids: Names | None = None, filter: str = ""
    ) -> MoveTask:
        """Move the messages of a queue to another, or each back to where it came from.

        With ids only those messages, with a filter (a selector, or a policy in JSON) only those that match.
        """
        if target and move_target(self._hall, target) is None:
            raise LonghallError(Code.UNKNOWN_QUEUE, f"There is no queue '{target}'.")
        return await self.mover.start_move(self._serving(source), target, rate_max, ids or [], filter)

    async def cancel_move(self, task_id: str, queue: str = "") -> MoveTask:
        """Stop a move, of this queue if one is named."""
        return await self.mover.cancel_move(task_id, queue)

    def moves(self, source: str) -> Moves:
        """The moves of a queue, the newest first."""
        return self.mover.moves(self._serving(source))

    def queue_placed(self, queue: RunningQueue) -> None:
        """This group serves a queue from now on, or does not any more."""
        queue.waiters.wake(len(queue.waiters))
        if not queue.is_away:
            queue.expiry = MAY_EXPIRE
            self.stager.arm(queue)
        self.consumers.queue_placed(queue)

    def _serving(self, name: str) -> RunningQueue:
        """The queue, if this group serves it. QUEUE_MOVED if another one does, or will in a moment."""
        queue = self._find(name)
        check_here(queue)
        return queue

    def _find(self, name: str) -> RunningQueue:
        queue = self._hall.running_queue(name)
        if queue is None:
            raise _unknown(name)
        return queue


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


def _unknown(name: str) -> LonghallError:
    return LonghallError(Code.UNKNOWN_QUEUE, f"There is no queue '{name}'.")


def _log_failure(done: Pending[Any]) -> None:
    if done.error is not None:
        _log.info("undelivered messages stay leased until their leases end", extra={"reason": str(done.error)})


def _view(queue: RunningQueue) -> QueueView:
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
        )
    return view


def _decide_purge(hall: Hall, queue: RunningQueue, ends: list[tuple[int, int]], apart_ms: int) -> Purged:
    purged = queue.queue.decide_purge(hall.time.now_ms(), ends, apart_ms, forgets=may_forget_sends(hall))
    if isinstance(purged, Code):
        raise LonghallError(purged, "the queue was purged less than a minute ago")
    return purged

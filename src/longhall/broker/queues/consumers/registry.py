"""All sessions and consumers of the hall that this process leads, and the queues that end with them.

    a session is closed          its messages go back, its consumers leave, its exclusive queues are deleted
    the last consumer leaves     an automatic queue is deleted
    nobody uses a queue          one with an end of use is deleted then; consuming, getting and declaring are uses
    this process begins to lead  messages of sessions of an earlier leader go back; exclusive queues are deleted: by a
                                 lone node at once, in a cluster unless their connection claims them within RECLAIM_S

Consumers and sessions are not durable: a client's connection opens its session again at the next leader. Leases of
sessions are recognized by their length.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Final, Protocol, final

from longhall.broker.background import cancel
from longhall.broker.hall import EVENT_ROOM_BYTES, Hall
from longhall.broker.pending import Pending, completed, started, when_committed
from longhall.broker.queues.consumers.queue_consumers import QueueConsumers, whole
from longhall.broker.queues.consumers.session import (
    DIRECT,
    MOVED,
    SESSION_LEASE_MS,
    Consumer,
    ConsumerSession,
    NewConsumer,
    PushedMessages,
    PushSink,
)
from longhall.broker.queues.consumers.stream_reader import StreamReader, StreamStart
from longhall.broker.queues.delivery.receive import receive
from longhall.broker.queues.delivery.reject import reject
from longhall.broker.queues.delivery.settle import change_leases, hand_back, settle
from longhall.broker.queues.running_queue import RunningQueue
from longhall.broker.queues.sending.room import is_too_long, make_room
from longhall.broker.queues.upkeep import queue_administration
from longhall.broker.queues.write import write_queue
from longhall.broker.waiting import committed
from longhall.errors import Code, LonghallError
from longhall.queues.events import Returned
from longhall.queues.leases import LEASED
from longhall.queues.messages import Delivery

SESSIONS_MAX: Final = 65_536
CONSUMERS_PER_SESSION_MAX: Final = 65_536
RECLAIM_S: Final = 30.0
SWEEP_S: Final = 0.1
PASSING_MS: Final = 1  # With so short a time to live (x-message-ttl 0) a message is for consumers that take it at once.
PUSH_TURNS_MAX: Final = 10  # Turns of the loop after which consumers have leased what arrived for them.

_log = logging.getLogger("longhall.queues")


class QueueEnds(Protocol):
    """Deletes a queue that ends with its consumers, its connection, or its time; no effect if it is gone."""

    async def end(self, queue: RunningQueue) -> None: ...


@final
class ConsumerRegistry:
    """The sessions of one hall, by id, and the consumers of its queues, by the number of the queue."""

    def __init__(self, hall: Hall) -> None:
        self.sessions: dict[str, ConsumerSession] = {}
        self._hall = hall
        self._queues: dict[int, QueueConsumers] = {}
        self._readers: dict[int, dict[Consumer, StreamReader]] = {}  # Of streams, by the number of the queue.
        self._used_s: dict[int, float] = {}  # When a queue with an end of use was used last.
        self._reclaim_s = self._reclaim_until_s = 0.0
        self._ends: QueueEnds = LocalQueueEnds(hall)
        self._ending: set[int] = set()  # Queues that are being deleted.
        self._task: asyncio.Task[None] | None = None

    def join(self, ends: QueueEnds) -> None:
        """Delete queues in this way, in a cluster: everywhere. Other nodes may know sessions of an earlier leader."""
        self._ends, self._reclaim_s = ends, RECLAIM_S

    def start(self) -> None:
        """Begin to lead: give back what sessions of an earlier leader held."""
        for queue in self._hall.queues.values():
            if not queue.is_away:
                self._return_orphans(queue)
        self._reclaim_until_s = asyncio.get_running_loop().time() + self._reclaim_s
        self._task = self._hall.background.start("end of queues", self._sweep)

    async def stop(self) -> None:
        """End every task."""
        await cancel(self._task)
        for consumers in self._queues.values():
            consumers.stop()
        for readers in self._readers.values():
            for reader in readers.values():
                reader.stop()

    # Sessions

    def open(self, session_id: str, sink: PushSink) -> ConsumerSession:
        """Open a session. One of the same id, of a connection that broke, is closed first."""
        if session_id in self.sessions:
            self.close(session_id, keep_queues=True)
        if len(self.sessions) >= SESSIONS_MAX:
            raise LonghallError(Code.OVERLOADED, "too many connections have sessions")
        session = self.sessions[session_id] = ConsumerSession(session_id, sink)
        return session

    def close(self, session_id: str, *, keep_queues: bool = False) -> None:
        """The connection of a session is gone."""
        session = self.sessions.pop(session_id, None)
        if session is None:
            return
        session.is_open = False
        for key in list(session.consumers):
            unused = self._leave(session, key)
            if unused is not None:
                self._delete(unused)
        for name, receipts in session.held.items():
            queue = self._hall.running_queue(name)
            if queue is not None:
                changes = [(receipt, 0) for receipt in receipts]
                started(change_leases(self._hall, queue, changes)).when_done(_log_failure)
        if not keep_queues:
            for queue in self._owned_by(session_id):
                self._delete(queue)

    def _owned_by(self, session_id: str) -> list[RunningQueue]:
        queues = self._hall.queues.values()
        return [one for one in queues if one.settings.amqp is not None and one.settings.amqp.owner == session_id]

    def session(self, session_id: str) -> ConsumerSession:
        """The session of this id. NOT_READY if this process does not know it: its client opens it again."""
        found = self.sessions.get(session_id)
        if found is None:
            raise LonghallError(Code.NOT_READY, "the session of the connection is not open; try again")
        return found

    def queue_placed(self, queue: RunningQueue) -> None:
        """This group serves a queue from now on, or does not any more. What sessions held comes back, as at an
        election; consumers are added again where the queue is served.
        """
        if not queue.is_away:
            self._return_orphans(queue)
            return
        name = queue.entry.name
        lost: dict[ConsumerSession, None] = {}
        for session in self.sessions.values():
            session.held.pop(name, None)
            for key in [key for key, consumer in session.consumers.items() if consumer.queue == name]:
                self._leave(session, key)
                lost[session] = None
        for session in lost:
            session.sink.push(PushedMessages(MOVED, name, []))

    # Consumers

    def consume(self, session_id: str, asked: NewConsumer, stream: StreamStart | None = None) -> None:
        """Add a consumer; no effect if the session has it. QUEUE_IN_USE if it or another one wants to be alone,
        INVALID_REQUEST for a filter that is none.
        """
        session = self.session(session_id)
        if asked.key in session.consumers:
            return
        name, exclusive = asked.queue, asked.exclusive
        queue = self._find(name)
        consumers = self._queues.get(queue.number)
        others = [*self._readers.get(queue.number, ()), *(consumers.consumers if consumers is not None else ())]
        if others and (exclusive or any(one.exclusive for one in others)):
            raise LonghallError(Code.QUEUE_IN_USE, f"'{name}' has a consumer that is alone, or more than one.")
        if exclusive and queue.settings.amqp is not None and queue.settings.amqp.single_active:
            raise LonghallError(Code.QUEUE_IN_USE, f"'{name}' has a single active consumer.")
        if len(session.consumers) >= CONSUMERS_PER_SESSION_MAX:
            raise LonghallError(Code.OVERLOADED, "too many consumers of one connection")
        if queue.settings.amqp is not None and queue.settings.amqp.is_stream:
            consumer = session.consumers[asked.key] = Consumer(session, asked)
            self.use(queue)
            reader = StreamReader(self._hall, queue, consumer, stream or StreamStart(), self._stream_gone)
            self._readers.setdefault(queue.number, {})[consumer] = reader
            return
        if consumers is None:
            consumers = QueueConsumers(self._hall, queue, self._gone)
        consumer = Consumer(session, asked)
        consumers.add(consumer)
        self._queues[queue.number] = consumers
        session.consumers[asked.key] = consumer
        self.use(queue)

    async def cancel(self, session_id: str, key: int) -> None:
        """Remove a consumer; its client keeps the messages that it has, and finds all others in the queue."""
        session = self.sessions.get(session_id)
        consumer = session.consumers.get(key) if session is not None else None
        if session is None or consumer is None:
            return
        queue = self._hall.running_queue(consumer.queue)
        consumers = self._queues.get(queue.number) if queue is not None else None
        unused = self._leave(session, key)
        if consumers is not None:
            await consumers.returned()
        if unused is not None:
            await self._ends.end(unused)

    def _leave(self, session: ConsumerSession, key: int) -> RunningQueue | None:
        """Remove a consumer; returns the queue if that ends with it."""
        consumer = session.consumers.pop(key, None)
        queue = self._hall.running_queue(consumer.queue) if consumer is not None else None
        consumers = self._queues.get(queue.number) if queue is not None else None
        if consumer is not None and queue is not None and self._stop_reader(queue, consumer):
            return None
        if consumer is None or queue is None or consumers is None or consumer not in consumers.consumers:
            return None
        consumers.remove(consumer)
        self.use(queue)
        if not consumers.consumers:
            del self._queues[queue.number]
            if queue.settings.amqp is not None and queue.settings.amqp.auto_delete:
                return queue
        return None

    def _stop_reader(self, queue: RunningQueue, consumer: Consumer) -> bool:
        """Stop the push of a stream to a consumer; False if it reads none."""
        readers = self._readers.get(queue.number, {})
        reader = readers.pop(consumer, None)
        if reader is None:
            return False
        reader.stop()
        if not readers:
            del self._readers[queue.number]
        return True

    def _stream_gone(self, consumer: Consumer) -> None:
        """Cancel the consumer of a deleted stream."""
        for number, readers in list(self._readers.items()):
            if readers.pop(consumer, None) is not None and not readers:
                del self._readers[number]
        consumer.session.consumers.pop(consumer.key, None)
        consumer.session.sink.push(PushedMessages(consumer.key, consumer.queue, []))

    def limit(self, session_id: str, channel: int, left: int | None) -> None:
        """Let all consumers of a channel together have so many more messages."""
        session = self.sessions.get(session_id)
        if session is None:
            return
        if left is None:
            session.limits.pop(channel, None)
        else:
            session.limits[channel] = left
        self.wake(session_id)

    def give_credit(self, session_id: str, key: int, credit: int) -> None:
        """Let a consumer have so many more messages; or a channel, with the key ~channel."""
        session = self.sessions.get(session_id)
        if session is not None and key < 0:
            if ~key in session.limits:
                self.limit(session_id, ~key, session.limits[~key] + credit)
            return
        consumer = session.consumers.get(key) if session is not None else None
        if consumer is None:
            return
        consumer.credit += credit
        queue = self._hall.running_queue(consumer.queue)
        consumers = self._queues.get(queue.number) if queue is not None else None
        reader = self._readers.get(queue.number, {}).get(consumer) if queue is not None else None
        if consumers is not None:
            consumers.changed()
        if reader is not None:
            reader.changed()

    def withdraw_credit(self, session_id: str, key: int, credit: int) -> int:
        """Take back credit that a consumer has not used, or a channel, with the key ~channel; returns how much."""
        session = self.sessions.get(session_id)
        if session is not None and ~key in session.limits:
            taken = max(min(credit, session.limits[~key]), 0)
            session.limits[~key] -= taken
            return taken
        consumer = session.consumers.get(key) if session is not None else None
        if consumer is None:
            return 0
        taken = max(min(credit, consumer.credit), 0)
        consumer.credit -= taken
        return taken

    def wake(self, session_id: str) -> None:
        """The client of a session reads again."""
        session = self.sessions.get(session_id)
        for key in session.consumers if session is not None else ():
            self.give_credit(session_id, key, 0)

    def consumer_count(self, queue: RunningQueue) -> int:
        """The consumers of a queue."""
        consumers = self._queues.get(queue.number)
        return len(consumers.consumers) if consumers is not None else len(self._readers.get(queue.number, ()))

    def active_consumer(self, queue: RunningQueue) -> Consumer | None:
        """The one consumer that is served, if the queue has a single active consumer."""
        consumers = self._queues.get(queue.number)
        single = queue.settings.amqp is not None and queue.settings.amqp.single_active
        return consumers.consumers[0] if single and consumers is not None and consumers.consumers else None

    def would_push(self, queue: RunningQueue) -> bool:
        """True if a message that arrives now is pushed at once."""
        consumers = self._queues.get(queue.number)
        return consumers is not None and consumers.has_credit

    # Messages

    async def take(self, session_id: str, name: str, no_ack: bool) -> Delivery | None:
        """Lease one message to a session, if there is one."""
        session = self.session(session_id)
        queue = self._find(name)
        self.use(queue)
        if queue.settings.amqp is not None and queue.settings.time_to_live_ms == PASSING_MS:
            return None
        if not queue.available():
            await committed(self._hall, queue.shard)  # What was published a moment ago may be found.
        for _ in range(PUSH_TURNS_MAX):  # Consumers with credit come first.
            if not queue.available() or not self.would_push(queue):
                break
            await asyncio.sleep(0)
        deliveries = await whole(self._hall, queue, await receive(self._hall, queue, 1, 0, SESSION_LEASE_MS))
        if not deliveries:
            return None
        receipt = deliveries[0].receipt
        if not session.is_open:
            await change_leases(self._hall, queue, [(receipt, 0)])
            return None
        if no_ack:
            settle(self._hall, queue, [receipt])
        else:
            session.hold(name, [receipt])
        return deliveries[0]

    def settle(self, session_id: str, name: str, receipts: list[str], consumer: str) -> Pending[None]:
        """A client is done with these messages."""
        self._release(session_id, name, receipts)
        queue = self._hall.running_queue(name)
        if queue is None:
            return completed(None)
        settled = settle(self._hall, queue, receipts, consumer)
        if not settled.known:
            later = started(_awaited(settled))
            later.keep()
            return later
        done: Pending[None] = Pending()
        done.decide(None)
        when_committed(self._hall, queue.shard, done)
        return done

    async def requeue(self, session_id: str, name: str, receipts: list[str], consumer: str) -> None:
        """A client gives these back."""
        self._release(session_id, name, receipts)
        queue = self._hall.running_queue(name)
        if queue is not None:
            await change_leases(self._hall, queue, [(receipt, 0) for receipt in receipts], consumer)
            if is_too_long(queue):
                await make_room(self._hall, queue, 0, 0)

    async def hand_back(self, session_id: str, name: str, receipts: list[str]) -> None:
        """A connection gives these back before its client has seen them."""
        self._release(session_id, name, receipts)
        queue = self._hall.running_queue(name)
        if queue is not None:
            await hand_back(self._hall, queue, receipts)

    async def reject(self, session_id: str, name: str, receipts: list[str]) -> None:
        """A client gives these up for good."""
        self._release(session_id, name, receipts)
        queue = self._hall.running_queue(name)
        if queue is not None:
            await reject(self._hall, queue, receipts)

    async def release(self, session_id: str, name: str, receipts: list[str]) -> None:
        """A transaction has ended these."""
        self._release(session_id, name, receipts)

    def _release(self, session_id: str, name: str, receipts: list[str]) -> None:
        session = self.sessions.get(session_id)
        if session is not None:
            session.release(name, receipts)

    def reply(self, session_id: str, delivery: Delivery) -> bool:
        """Push a message to a session directly, past every queue; False if there is no such session."""
        session = self.sessions.get(session_id)
        if session is None or not session.sink.is_writable:
            return False
        session.sink.push(PushedMessages(DIRECT, "", [delivery]))
        return True

    # The end of queues

    def idle_ms(self, queue: RunningQueue) -> int:
        """The time since the last use of a queue with an end of use; 0 for others."""
        used_s = self._used_s.get(queue.number)
        return int((asyncio.get_running_loop().time() - used_s) * 1000) if used_s is not None else 0

    def use(self, queue: RunningQueue) -> None:
        """A queue is in use now."""
        if queue.settings.amqp is not None and queue.settings.amqp.expires_ms:
            self._used_s[queue.number] = asyncio.get_running_loop().time()

    def _gone(self, consumers: QueueConsumers) -> None:
        """Cancel the consumers of a deleted queue."""
        self._queues.pop(consumers.queue.number, None)
        for consumer in consumers.consumers:
            consumer.session.consumers.pop(consumer.key, None)
            consumer.session.sink.push(PushedMessages(consumer.key, consumer.queue, []))
        consumers.consumers = []

    async def _sweep(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(SWEEP_S)
            now_s = loop.time()
            for queue in list(self._hall.queues.values()):
                amqp = queue.settings.amqp
                if amqp is None:
                    continue
                if not self._hall.options.wing and self._is_orphan(amqp.owner, now_s):
                    self._delete(queue)
                elif self._is_here(queue) and amqp.expires_ms and not self.consumer_count(queue):
                    used_s = self._used_s.setdefault(queue.number, now_s)
                    if now_s - used_s > amqp.expires_ms / 1000:
                        self._delete(queue)
            for number in [number for number in self._used_s if number not in self._hall.queues]:
                del self._used_s[number]
            for consumers in [one for one in self._queues.values() if one.queue.removed]:
                self._gone(consumers)

    def awaits_owner(self, queue: RunningQueue) -> bool:
        """True for an exclusive queue whose connection this leader does not know: it comes back, or the queue ends."""
        amqp = queue.settings.amqp
        if amqp is None or not amqp.owner or self._hall.options.wing:
            return False
        return amqp.owner not in self.sessions

    def _is_orphan(self, owner: str, now_s: float) -> bool:
        """True if the connection of an exclusive queue is gone. The leader of the hall knows all connections."""
        return bool(owner) and now_s > self._reclaim_until_s and owner not in self.sessions

    def _is_here(self, queue: RunningQueue) -> bool:
        """True if this hall stores the queue, and its consumers are here."""
        return not queue.is_away

    def _delete(self, queue: RunningQueue) -> None:
        if not queue.removed and queue.number not in self._ending:
            self._ending.add(queue.number)
            started(self._end(queue)).when_done(_log_failure)

    async def _end(self, queue: RunningQueue) -> None:
        try:
            await self._ends.end(queue)
        finally:
            self._ending.discard(queue.number)

    def _return_orphans(self, queue: RunningQueue) -> None:
        leases = queue.queue.state.leases
        if not leases.leased or not self._hall.has_room(EVENT_ROOM_BYTES // 4):
            return
        now_ms = self._hall.time.now_ms()
        lanes = {lane.index: lane_id for lane_id, lane in queue.queue.state.lanes.items()}
        returned = [
            Returned(
                queue=queue.number,
                lane=lanes[leases.lane[row]],
                offset=leases.offset[row],
                at_ms=now_ms,
                visible_ms=now_ms,
            )
            for row, state in enumerate(leases.state)
            if state == LEASED
            and leases.deadline_ms[row] - leases.leased_ms[row] >= SESSION_LEASE_MS
            and not leases.is_held(row)  # The outcome of its transaction comes, and returns it if it was aborted.
        ]
        write_queue(self._hall, queue, returned)

    def _find(self, name: str) -> RunningQueue:
        queue = self._hall.known_queue(name)
        if not self._is_here(queue):
            raise LonghallError(Code.QUEUE_MOVED, f"Other groups store the queue '{name}', and have its consumers.")
        return queue


@final
class LocalQueueEnds:
    """Deletes queues of a hall that has no other groups."""

    def __init__(self, hall: Hall) -> None:
        self._hall = hall

    async def end(self, queue: RunningQueue) -> None:
        try:
            await queue_administration.delete(self._hall, queue)
        except LonghallError as error:
            if error.code is not Code.UNKNOWN_QUEUE:
                raise


async def _awaited(pending: Pending[Any]) -> None:
    await pending


def _log_failure(done: Pending[Any]) -> None:
    if done.error is not None:
        _log.warning("the end of a session was not carried out", extra={"reason": str(done.error)})

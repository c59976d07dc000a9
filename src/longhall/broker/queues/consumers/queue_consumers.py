"""The consumers of one queue, and the tasks that lease messages for them and push these.

Consumers without a filter have one task, and so have all consumers with the same filter.

    messages are given to    the consumers of the highest priority that have credit and whose client reads, in turn
    single active consumer   only the consumer that came first
    no consumer can take     the task waits, and the messages stay available for every other receiver

A consumer that is slow or has no credit holds back nobody else. What was leased and can no longer be given to anyone
goes back at once, without counting an attempt.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final, final

from longhall.broker.hall import Hall
from longhall.broker.pending import Pending, started
from longhall.broker.queues.consumers.session import SESSION_LEASE_MS, Consumer, PushedMessages
from longhall.broker.queues.delivery.receive import receive
from longhall.broker.queues.delivery.receiver_filters import FILTERS_MAX
from longhall.broker.queues.delivery.settle import hand_back, settle
from longhall.broker.queues.large_messages.reassembly import read_part
from longhall.broker.queues.running_queue import RunningQueue
from longhall.broker.usage.usage_meter import ACCOUNT
from longhall.broker.waiting import committed
from longhall.errors import Code, LonghallError
from longhall.names import CATALOGUE_SHARD
from longhall.queues.messages import Delivery
from longhall.queues.selector import compile_filter

BATCH_MAX: Final = 256  # Messages that are leased together.
WAIT_MS: Final = 3_600_000
TOLD_S: Final = 0.01
PAUSE_S: Final = 0.1  # After a refusal, before the next attempt.

_log = logging.getLogger("longhall.queues")


@final
class QueueConsumers:
    """The consumers of one queue, by falling priority and then by age."""

    def __init__(self, hall: Hall, queue: RunningQueue, on_gone: Callable[[QueueConsumers], None]) -> None:
        self.queue = queue
        self.consumers: list[Consumer] = []
        self._hall = hall
        self._on_gone = on_gone
        self._pushes: dict[str, _Push] = {}  # By filter.
        self._stopped: list[_Push] = []  # Those that may have leased messages that nobody was given.

    def add(self, consumer: Consumer) -> None:
        """A new consumer. INVALID_REQUEST for a filter that is none, OVERLOADED if the queue has too many of them."""
        if consumer.filter and consumer.filter not in self._pushes:
            if len(self._pushes) >= FILTERS_MAX:
                raise LonghallError(Code.OVERLOADED, f"the consumers of one queue have at most {FILTERS_MAX} filters")
            compile_filter(consumer.filter)
        at = len(self.consumers)
        while at > 0 and self.consumers[at - 1].priority < consumer.priority and not self._is_single:
            at -= 1
        self.consumers.insert(at, consumer)
        push = self._pushes.get(consumer.filter)
        if push is None:
            push = self._pushes[consumer.filter] = _Push(self._hall, self, consumer.filter)
        push.start()
        self.changed()

    def remove(self, consumer: Consumer) -> None:
        """A consumer is gone; nothing is pushed to it any more."""
        self.consumers.remove(consumer)
        if not any(other.filter == consumer.filter for other in self.consumers):
            push = self._pushes.pop(consumer.filter)
            push.stop()
            self._stopped.append(push)
        self.changed()

    async def returned(self) -> None:
        """Done when messages that were leased for consumers that are gone are available again."""
        stopped, self._stopped = self._stopped, []
        for push in stopped:
            await push.returned()

    def stop(self) -> None:
        """End all tasks."""
        for push in self._pushes.values():
            push.stop()

    def changed(self) -> None:
        """Credit was given, or a client reads again."""
        for push in self._pushes.values():
            push.wake.set()

    def gone(self) -> None:
        """End the tasks of a deleted queue, and cancel its consumers."""
        self._on_gone(self)
        self.changed()

    @property
    def has_credit(self) -> bool:
        """True if a message would be pushed at once, whatever it is."""
        return self.wanted("") > 0

    @property
    def _is_single(self) -> bool:
        amqp = self.queue.settings.amqp
        return amqp is not None and amqp.single_active

    def able(self, filter: str) -> list[Consumer]:
        """The consumers with this filter and of the highest priority that can be given a message now."""
        able: list[Consumer] = []
        for consumer in self.consumers[:1] if self._is_single else self.consumers:
            if able and consumer.priority < able[0].priority:
                break
            if consumer.filter == filter and consumer.is_able:
                able.append(consumer)
        return able

    def yields(self, filter: str) -> bool:
        """True if the next consumer to be served lets others go first that share the limit of its channel."""
        able = self.able(filter)
        return bool(able) and able[0].was_served_last

    def wanted(self, filter: str) -> int:
        """The number of messages that the consumers with this filter can take now."""
        return sum(consumer.room for consumer in self.able(filter))


@final
class _Push:
    """The task that leases messages for the consumers with one filter, and pushes them."""

    def __init__(self, hall: Hall, consumers: QueueConsumers, filter: str) -> None:
        self.wake = asyncio.Event()
        self._hall = hall
        self._consumers = consumers
        self._queue = consumers.queue
        self._filter = filter
        self._turn = 0
        self._waiting: Pending[list[Delivery]] | None = None
        self._task: asyncio.Task[None] | None = None
        self._ended: asyncio.Task[None] | None = None  # The task, after it was stopped.
        self._returning = 0  # Calls under way that give messages back.
        self._all_returned: asyncio.Future[None] | None = None

    def start(self) -> None:
        """Begin, if it has not begun."""
        if self._task is None:
            self._task = self._hall.background.start("push", self._run)

    def stop(self) -> None:
        """End the task."""
        if self._waiting is not None:
            self._waiting.cancel()
        if self._task is not None and self._waiting is None:
            self._task.cancel()
        self._ended, self._task = self._task, None

    async def returned(self) -> None:
        """Done when the task has ended and the messages that it did not push are available again."""
        if self._ended is not None:
            await asyncio.wait([self._ended])
        if self._returning:
            if self._all_returned is None:
                self._all_returned = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._all_returned)

    async def _run(self) -> None:
        own = self._task
        ACCOUNT.set(None)  # The messages are counted when it is known which consumer gets them.
        while self._consumers.consumers and self._task is own:
            wanted = min(self._consumers.wanted(self._filter), BATCH_MAX)
            if wanted <= 0:
                self.wake.clear()
                await self.wake.wait()
                continue
            try:
                deliveries = await self._lease(wanted)
            except LonghallError as error:
                if self._queue.removed:
                    # The deletion is committed, and its own reply leaves before its consumers are told.
                    await committed(self._hall, self._hall.shards[CATALOGUE_SHARD])
                    await asyncio.sleep(TOLD_S)
                    self._consumers.gone()
                    return
                _log.info("consumers wait", extra={"queue": self._queue.entry.name, "reason": str(error)})
                await asyncio.sleep(PAUSE_S)
                continue
            except asyncio.CancelledError:
                if self._task is not own:
                    return
                raise
            if self._consumers.yields(self._filter):
                try:
                    await asyncio.sleep(0)
                except asyncio.CancelledError:
                    self._return(deliveries)
                    raise
            self._give(deliveries)

    async def _lease(self, wanted: int) -> list[Delivery]:
        queue = self._queue
        pending = receive(self._hall, queue, wanted, WAIT_MS, SESSION_LEASE_MS, self._filter)
        pending.when_abandoned(self._return)
        self._waiting = pending
        try:
            return await whole(self._hall, queue, await pending)
        finally:
            self._waiting = None

    def _give(self, deliveries: list[Delivery]) -> None:
        """Share messages among the consumers, in turn."""
        name = self._queue.entry.name
        given: dict[int, tuple[Consumer, list[Delivery]]] = {}
        rest: list[Delivery] = []
        able = self._consumers.able(self._filter)
        if len(able) == 1:
            count = min(able[0].room, len(deliveries))
            able[0].take(count)
            given[id(able[0])] = (able[0], deliveries[:count])
            able, deliveries = self._consumers.able(self._filter), deliveries[count:]
        for at, delivery in enumerate(deliveries):
            if not able:
                rest = deliveries[at:]
                break
            self._turn += 1
            consumer = able[self._turn % len(able)]
            consumer.take(1)
            given.setdefault(id(consumer), (consumer, []))[1].append(delivery)
            if not consumer.is_able:
                able = self._consumers.able(self._filter)
        meter = self._hall.usage.meter
        for consumer, some in given.values():
            if meter is not None:
                meter.pushed(consumer.account, name, len(some), sum([len(one.body) for one in some]))
            receipts = [delivery.receipt for delivery in some if delivery.receipt]
            if consumer.no_ack:
                settle(self._hall, self._queue, receipts)
            elif receipts:
                consumer.session.hold(name, receipts)
            consumer.session.sink.push(PushedMessages(consumer.key, name, some))
        if rest:
            self._return(rest)

    def _return(self, deliveries: list[Delivery]) -> None:
        """Give back messages that no consumer has seen."""
        receipts = [delivery.receipt for delivery in deliveries if delivery.receipt]
        if receipts and not self._queue.removed:
            self._returning += 1
            started(hand_back(self._hall, self._queue, receipts)).when_done(self._has_returned)

    def _has_returned(self, done: Pending[list[Code | None]]) -> None:
        if done.error is not None:
            _log.warning("messages stay leased to a consumer that is gone", extra={"reason": str(done.error)})
        self._returning -= 1
        if not self._returning and self._all_returned is not None:
            self._all_returned.set_result(None)
            self._all_returned = None


async def whole(hall: Hall, queue: RunningQueue, deliveries: list[Delivery]) -> list[Delivery]:
    """These deliveries, with the bodies of those that are too large for one reply."""
    for delivery in deliveries:
        if delivery.parts:
            parts = [await read_part(hall, queue, delivery.receipt, number) for number in range(delivery.parts)]
            delivery.body = b"".join(parts)
    return deliveries

"""The router: it sends every operation of every door to the leader that carries it out.

    the queue is stored by other groups    their leaders are asked, and replies are merged (`placed_queues`)
    this process leads the hall            the broker in this process carries it out (`local`)
    another process leads the hall         one call to it (`cluster.rpc.leader_client`)

A lone node, a leader, a follower, a worker without data and the process of another group differ in the objects that the
router gets, not in code. A reply that something does not exist, or exists already, is confirmed here: a deposed leader
that does not know of its deposition lacks what was created and deleted since.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final, Protocol, TypeVar, cast, final

import msgspec

from longhall.broker.leadership import Leadership
from longhall.broker.pending import Pending, completed, failed, started
from longhall.cluster.placement.group_topics import GroupTopics
from longhall.cluster.rpc.leader_client import CALL, CALLS_MAX, LeaderClient
from longhall.cluster.rpc.operation import NOBODY_IN_PARTICULAR, Call, Caller, Operation, encode_reply
from longhall.cluster.rpc.peers import Audience, Peers
from longhall.errors import Code, LonghallError
from longhall.names import CATALOGUE_SHARD
from longhall.queues.messages import Delivery, QueueView
from longhall.service.call_codec import decode_call
from longhall.service.exchange_operations import (
    AddConsumer,
    CancelConsumer,
    LimitChannel,
    TakeMessage,
)
from longhall.service.local import LocalBroker
from longhall.service.placed_queue import PlacedQueue
from longhall.service.placed_queues import PlacedQueues
from longhall.service.queue_operations import (
    CreateQueue,
    DescribeQueue,
    ForkQueue,
    MessageOperation,
    QueueOperation,
    ReceiveMessages,
    SettleWithSends,
    undelivered,
)
from longhall.service.sessions import Sessions

KNOWN_LOOK_S: Final = 0.02  # The interval at which a node looks whether it knows a new queue,
KNOWN_LOOKS_MAX: Final = 100  # and how often.

MOVED_LOOK_S: Final = 0.05  # The interval at which the group of a queue that moves is looked for,
MOVED_LOOKS_MAX: Final = 240  # and how often.

# The errors that a deposed leader could return wrongly.
TO_CONFIRM: Final = frozenset(
    {
        Code.UNKNOWN_QUEUE,
        Code.QUEUE_EXISTS,
        Code.QUEUE_DELETED_RECENTLY,
        Code.UNKNOWN_TOPIC,
        Code.UNKNOWN_TOPIC_ID,
        Code.TOPIC_EXISTS,
        Code.UNKNOWN_MESSAGE,
        Code.MOVE_UNKNOWN,
        Code.UNKNOWN_ENTRY,
        Code.ENTRY_EXISTS,
    }
)

R = TypeVar("R")

Confirm = Callable[[], Awaitable[None]]


class MessageGate(Protocol):
    """What messages pass on their way between the doors of this process and the broker; fulfilled by `front`."""

    def intercept(self, operation: Operation[Any], caller: Caller) -> Pending[Any] | None:
        """Carry out an operation whose messages have to be changed on the way; None for every other one."""


class QueueViews(Protocol):
    """The queues that this process knows without asking; slightly stale if another process leads."""

    @property
    def is_whole(self) -> bool: ...

    def view(self, name: str) -> QueueView | None: ...


class RequestMeter(Protocol):
    """Counts the requests of clients; fulfilled by `front.usage`."""

    def count(self, operation: Operation[Any], caller: Caller) -> None: ...


class CallTurns(Protocol):
    """Lets the calls of tenants take turns when there are many; fulfilled by `front.fair_calls`."""

    def pass_on(
        self, operation: Operation[Any], caller: Caller, carry_out: Callable[[Operation[Any], Caller], Pending[Any]]
    ) -> Pending[Any]: ...

    def is_behind(self, caller: Caller) -> bool: ...


class OperationGuard(Protocol):
    """Permits or refuses operations of clients; fulfilled by `front.guard`."""

    active: bool
    audits: bool
    unseen: dict[str, None]

    def note_permitted(self, operation: Operation[Any], caller: Caller) -> None: ...

    def check(self, operation: Operation[Any], caller: Caller) -> Callable[[Any], Any] | None: ...

    def watch(self, operation: Operation[R], caller: Caller, under_way: Pending[R]) -> Pending[R]: ...

    def check_describe(self, queue: str, caller: Caller) -> None: ...

    def may_enter(self, caller: Caller, host: str) -> bool: ...


@final
class Router:
    """The service behind every door of this process."""

    def __init__(
        self,
        local: LocalBroker,
        views: QueueViews,
        sessions: Sessions | None = None,
        guard: OperationGuard | None = None,
    ) -> None:
        """The router of a lone node; `join` connects it to other processes. Without a guard
        everything is permitted.
        """
        self.sessions = sessions
        self._guard = guard
        self._local = local
        self._views = views
        self._leadership: Leadership | None = None
        self._leader: LeaderClient | None = None
        self._confirm: Confirm | None = None
        self._placed: PlacedQueues | None = None
        self._topics: GroupTopics | None = None
        self._gate: MessageGate | None = None
        self._usage: RequestMeter | None = None
        self._turns: CallTurns | None = None

    def join(
        self,
        leadership: Leadership,
        peers: Peers,
        *,
        confirm: Confirm | None = None,
        views: QueueViews | None = None,
        calls_max: int = CALLS_MAX,
    ) -> None:
        """Connect to other processes: send calls to the leader, and answer calls of others. Without `confirm` no reply
        is confirmed: the death of a leader always breaks the connections to it.
        """
        self._leadership = leadership
        self._leader = LeaderClient(leadership, peers, self._here, calls_max=calls_max)
        self._confirm = confirm
        self._views = views or self._views
        peers.serve_calls(CALL, self._serve, Audience.GUESTS)
        if self.sessions is not None:
            self.sessions.join(leadership, peers)

    def place(self, placed: PlacedQueues) -> None:
        """Set the router of queues that other groups store."""
        self._placed = placed

    def store(self, topics: GroupTopics) -> None:
        """Set the topics that this process stores as a member of another group."""
        self._topics = topics

    def pass_through(self, gate: MessageGate) -> None:
        """Let the messages of this process's doors pass this gate."""
        self._gate = gate

    def meter(self, usage: RequestMeter) -> None:
        """Count the requests of this process's doors."""
        self._usage = usage

    def share(self, turns: CallTurns) -> None:
        """Let the tenants of this process's doors take turns."""
        self._turns = turns

    def close(self) -> None:
        """End every call to other processes."""
        if self._leader is not None:
            self._leader.close()

    # For doors

    @property
    def leads(self) -> bool:
        """True if this process leads the hall."""
        return self._leadership is None or self._leadership.leads(CATALOGUE_SHARD)

    def view(self, name: str) -> QueueView | None:
        """The queue of this name as it is known here, for an operation on its messages. None does not prove that it
        does not exist.
        """
        return self._views.view(name)

    @property
    def knows_queues(self) -> bool:
        """False while a queue that is not known here may exist elsewhere, so that nobody knows its policy."""
        return self._views.is_whole

    def find(self, name: str, caller: Caller) -> Pending[QueueView]:
        """The queue of this name, from the leader if it is not known here. UNKNOWN_QUEUE is confirmed. ACCESS_REFUSED
        comes first, whether the queue exists or not.
        """
        guard = self._guard
        if guard is not None and guard.active:
            try:
                guard.check_describe(name, caller)
            except LonghallError as error:
                return failed(error)
        view = self._views.view(name)
        return self.dispatch(DescribeQueue(name), caller) if view is None else completed(view)

    def call(self, operation: Operation[R], caller: Caller) -> Pending[R]:
        """Carry out an operation of a client, if it is permitted. It never raises: a refusal is the error of the
        `Pending` that is returned.
        """
        if self._usage is not None:
            self._usage.count(operation, caller)
        guard = self._guard
        if guard is not None and guard.active:
            return self._guarded(guard, operation, caller, False)
        if guard is not None and guard.audits:
            guard.note_permitted(operation, caller)
        return self.pass_on(operation, caller)

    def _guarded(self, guard: OperationGuard, operation: Operation[R], caller: Caller, is_seen: bool) -> Pending[R]:
        """Carry out an operation, if it is permitted. `is_seen`: what is not known here does not exist."""
        try:
            select = guard.check(operation, caller)
        except LonghallError as error:
            return failed(error)
        if not is_seen and guard.unseen and not self.leads:
            return self._kept(operation, started(self._when_seen(guard, list(guard.unseen), operation, caller)))
        if guard.audits:
            guard.note_permitted(operation, caller)
        if select is not None:
            return started(_selected(self.pass_on(operation, caller), select))
        if operation.waits:
            return guard.watch(operation, caller, self.pass_on(operation, caller))
        return self.pass_on(operation, caller)

    async def _when_seen(self, guard: OperationGuard, names: list[str], operation: Operation[R], caller: Caller) -> R:
        """Carry out an operation on queues that this process did not know: before it was permitted, their policies and
        topics were not asked. What was just created elsewhere is known here in a moment.
        """
        for name in names:
            try:
                await self.dispatch(DescribeQueue(name), caller)
            except LonghallError as error:
                if error.code is not Code.UNKNOWN_QUEUE:
                    raise
                continue
            if not await self._becomes_known(name):
                raise LonghallError(Code.NOT_READY, "this node does not know the queue yet; try again in a moment")
        reply = await self._guarded(guard, operation, caller, True)
        if isinstance(operation, CreateQueue | ForkQueue):  # Its creator goes on at once, and in order.
            await self._becomes_known(operation.queue if isinstance(operation, CreateQueue) else operation.name)
        return reply

    async def _becomes_known(self, name: str) -> bool:
        """Wait until this process knows a queue that exists; False if that takes too long."""
        for _ in range(KNOWN_LOOKS_MAX):
            if self._views.view(name) is not None:
                return True
            await asyncio.sleep(KNOWN_LOOK_S)
        return False

    def pass_on(self, operation: Operation[R], caller: Caller) -> Pending[R]:
        """Carry out an operation of a client that was permitted already, when it is its tenant's turn."""
        turns = self._turns
        if turns is not None and caller.tenant:
            return turns.pass_on(operation, caller, self._through_gate)
        return self._through_gate(operation, caller)

    def is_behind(self, caller: Caller) -> bool:
        """True if further operations of this client wait until others are done: read no more of them."""
        return self._turns is not None and caller.tenant != "" and self._turns.is_behind(caller)

    def _through_gate(self, operation: Operation[R], caller: Caller) -> Pending[R]:
        gate = self._gate
        passed = gate.intercept(operation, caller) if gate is not None else None
        return passed if passed is not None else self.dispatch(operation, caller)

    @property
    def is_guarded(self) -> bool:
        """True if operations need permissions."""
        return self._guard is not None and self._guard.active

    def may_enter(self, host: str, caller: Caller) -> bool:
        """True if the caller may use a virtual host at all."""
        return self._guard is None or self._guard.may_enter(caller, host)

    def check(self, operation: Operation[Any], caller: Caller) -> None:
        """Raises ACCESS_REFUSED if `call` would refuse this operation: for what is done without it in the end."""
        if self._guard is not None and self._guard.active:
            self._guard.check(operation, caller)

    def dispatch(self, operation: Operation[R], caller: Caller = NOBODY_IN_PARTICULAR) -> Pending[R]:
        """Carry out an operation of Longhall itself, or one of a client that was permitted. It never raises."""
        try:
            elsewhere = self._in_groups(operation, caller) or self._of_session(operation, caller)
            if elsewhere is not None:
                return elsewhere
            if self.leads:
                return self._here(operation, caller)
            return self._ask(operation, caller)
        except LonghallError as error:
            if error.code is Code.QUEUE_MOVED and self._placed is not None:
                return self._kept(operation, started(self._find_again(operation, caller)))
            return failed(error)

    def _in_groups(self, operation: Operation[R], caller: Caller) -> Pending[R] | None:
        """Carry out an operation on messages in the groups that store the queue; None if the hall stores it."""
        if self._placed is None or not isinstance(operation, MessageOperation):
            return None
        queue = self._placed.find(operation.queue)
        if queue is None or (isinstance(operation, SettleWithSends) and self._placed.needs_hall(queue, operation)):
            return None
        return self._kept(operation, started(self._carry_out(queue, operation, caller)))

    async def _carry_out(self, queue: PlacedQueue, operation: Operation[R], caller: Caller) -> R:
        assert self._placed is not None
        try:
            return await self._placed.carry_out(queue, operation, caller)
        except LonghallError as error:
            if error.code is not Code.QUEUE_MOVED:
                raise
        return await self._find_again(operation, caller)

    async def _find_again(self, operation: Operation[R], caller: Caller) -> R:
        """Repeat an operation on a queue that moves between groups, and which has changed nothing, until one of them
        serves the queue. NOT_READY if that takes too long.
        """
        for _ in range(MOVED_LOOKS_MAX):
            await asyncio.sleep(MOVED_LOOK_S)
            try:
                return await self._once(operation, caller)
            except LonghallError as error:
                if error.code is not Code.QUEUE_MOVED:
                    raise
        raise LonghallError(Code.NOT_READY, "the queue moves between replication groups; try again")

    async def _once(self, operation: Operation[R], caller: Caller) -> R:
        queue = self._placed.find(operation.queue) if self._placed and isinstance(operation, MessageOperation) else None
        if queue is not None:
            assert self._placed is not None
            return await self._placed.carry_out(queue, operation, caller)
        if self.leads:
            return await cast("Pending[R]", self._local.carry_out(operation, caller))
        return await self._ask(operation, caller)

    def _of_session(self, operation: Operation[R], caller: Caller) -> Pending[R] | None:
        """Carry out an operation on a client's session that other groups may know; None if it is none."""
        placed = self._placed
        if placed is None:
            return None
        if isinstance(operation, AddConsumer | TakeMessage) and not self.leads:
            return started(self._when_known(operation, caller))
        if isinstance(operation, CancelConsumer | LimitChannel):
            return self._kept(operation, started(self._on_session(placed, operation, caller)))
        return None

    async def _on_session(self, placed: PlacedQueues, operation: CancelConsumer | LimitChannel, caller: Caller) -> Any:
        """Carry out an operation on a session in the groups that know it, and at the hall's leader."""
        if isinstance(operation, LimitChannel):
            await placed.consumers.limit(operation)
        elif await placed.consumers.cancel(operation, caller):
            return None
        return await (self._here(operation, caller) if self.leads else self._ask(operation, caller))

    async def _when_known(self, operation: AddConsumer | TakeMessage, caller: Caller) -> Any:
        """Wait until this node knows the queue: only then it knows who stores it."""
        await self._becomes_known(operation.queue)
        assert self._placed is not None
        queue = self._placed.find(operation.queue)
        try:
            if queue is not None:
                return await self._placed.carry_out(queue, operation, caller)
            return await (self._here(operation, caller) if self.leads else self._ask(operation, caller))
        except LonghallError as error:
            if error.code is not Code.QUEUE_MOVED:
                raise
        return await self._find_again(operation, caller)

    def _ask(self, operation: Operation[R], caller: Caller) -> Pending[R]:
        assert self._leader is not None
        late = partial(self._return, operation.queue) if isinstance(operation, ReceiveMessages) else None
        pending: Pending[R] = self._leader.call(operation, caller, on_late=late)
        return self._kept(operation, pending)

    async def confirm(self) -> None:
        """Confirm the leadership before a final reply that something exists or does not. Returns when this process has
        led at some time after the call, or knows that it does not lead. NOT_READY if neither can be established.
        """
        if self._confirm is not None:
            await self._confirm()

    # In this process

    def _here(self, operation: Operation[R], caller: Caller) -> Pending[R]:
        try:
            pending = self._local.carry_out(operation, caller)
        except LonghallError as error:
            if error.code is Code.QUEUE_MOVED and self._placed is not None and not _is_of_session(operation):
                return self._kept(operation, started(self._find_again(operation, caller)))
            if self._confirm is None or error.code not in TO_CONFIRM:
                raise
            return self._kept(operation, started(self._again(operation, caller)))
        if operation.waits and self._placed is not None and not pending.done:
            return started(self._or_again(operation, caller, pending))
        if self._confirm is None or pending.known or pending.done or operation.waits:
            return pending
        return self._kept(operation, started(self._confirmed(operation, caller, pending)))

    async def _or_again(self, operation: Operation[R], caller: Caller, pending: Pending[R]) -> R:
        """Wait for the reply; again, if the queue moves to another group meanwhile."""
        try:
            return await pending
        except LonghallError as error:
            if error.code is not Code.QUEUE_MOVED:
                raise
        return await self._find_again(operation, caller)

    async def _confirmed(self, operation: Operation[R], caller: Caller, pending: Pending[R]) -> R:
        try:
            return await pending
        except LonghallError as error:
            if error.code is Code.QUEUE_MOVED and self._placed is not None and not _is_of_session(operation):
                return await self._find_again(operation, caller)
            if error.code not in TO_CONFIRM:
                raise
        return await self._again(operation, caller)

    async def _again(self, operation: Operation[R], caller: Caller) -> R:
        """Confirm the leadership and repeat an operation whose refusal must be certain. It has changed nothing."""
        await self.confirm()
        if self.leads:
            return await cast("Pending[R]", self._local.carry_out(operation, caller))
        return await self._ask(operation, caller)

    def _kept(self, operation: Operation[R], pending: Pending[R]) -> Pending[R]:
        """Shield an operation that changes something: it completes even if its caller goes away."""
        if not operation.waits:
            pending.keep()
        return pending

    # For other processes

    def _serve(self, node: int, body: bytes) -> tuple[Pending[Any], Callable[[Any], bytes]]:
        try:
            call: Call = decode_call(body)
        except msgspec.DecodeError as error:
            raise LonghallError(Code.INVALID_REQUEST, f"an operation cannot be read: {error}") from None
        if not self.leads:
            raise LonghallError(Code.NOT_LEADER, "another node leads by now; try again")
        operation = call.operation
        if call.incarnation and self._topics is not None and isinstance(operation, QueueOperation):
            self._topics.check_incarnation(operation.queue, call.incarnation)
        # The caller may not know yet that groups store a queue which was just created; it waits with consumers.
        in_groups = None
        if not isinstance(operation, AddConsumer | TakeMessage):
            in_groups = self._in_groups(operation, call.caller)
        return in_groups or self._here(operation, call.caller), encode_reply

    def _return(self, queue: str, deliveries: list[Delivery]) -> None:
        """Return messages whose receiver has gone away, without counting an attempt."""
        operation = undelivered(queue, deliveries)
        if operation is not None:
            self.dispatch(operation)


def _is_of_session(operation: Operation[Any]) -> bool:
    """True for an operation that only the process with the client's connection can send to another group."""
    return isinstance(operation, AddConsumer | TakeMessage)


async def _selected(pending: Pending[R], select: Callable[[R], R]) -> R:
    """The part of a reply that the caller may see."""
    return select(await pending)

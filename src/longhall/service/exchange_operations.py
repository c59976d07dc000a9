"""The operations on exchanges, bindings and virtual hosts, publishing through them, and consuming by push.

Exchanges are named by virtual host and name. A queue is named as the hall names it (`exchanges/names.py`). Field tables
are passed as their bytes. Sessions and consumers: `broker/queues/consumers`.
"""

from __future__ import annotations

from typing import Generic, TypeVar

import msgspec

from longhall.broker.queues.consumers.stream_reader import StreamStart
from longhall.broker.queues.sending.publication import Publication, Published
from longhall.broker.queues.sending.transaction import DONE, REJECT, REQUEUE, SETTLE, UNSEEN, EndedMessages
from longhall.cluster.rpc.operation import Operation
from longhall.queues.messages import Delivery
from longhall.service.queue_operations import MessageOperation, QueueOperation

__all__ = ["DONE", "REJECT", "REQUEUE", "SETTLE", "UNSEEN"]  # How `EndHeld` ends messages.

R_co = TypeVar("R_co", covariant=True)


class ExchangeView(msgspec.Struct, array_like=True):
    """An exchange as it was declared."""

    host: str
    name: str
    kind: str
    durable: bool
    auto_delete: bool
    internal: bool
    arguments: bytes


class BindingView(msgspec.Struct, array_like=True):
    """A binding from an exchange to a queue of the hall or to another exchange."""

    host: str
    source: str
    to_exchange: bool
    destination: str
    key: str
    arguments: bytes


class DeclareExchange(Operation[ExchangeView]):
    """Create an exchange; the reply is the one that exists if the name is taken. UNKNOWN_VIRTUAL_HOST."""

    exchange: ExchangeView


class DescribeExchange(Operation[ExchangeView]):
    """The exchange of this name. UNKNOWN_EXCHANGE if there is none."""

    host: str
    name: str


class DeleteExchange(Operation[None]):
    """Delete an exchange; no effect if there is none. With `if_unused` EXCHANGE_IN_USE if it has bindings."""

    host: str
    name: str
    if_unused: bool = False


class BindExchange(Operation[None]):
    """Bind a queue or an exchange; no effect if it is bound so. UNKNOWN_EXCHANGE, UNKNOWN_QUEUE."""

    binding: BindingView


class UnbindExchange(Operation[None]):
    """Remove a binding; no effect if there is none."""

    binding: BindingView


class ListExchanges(Operation[list[ExchangeView]]):
    """The exchanges of a virtual host, by name."""

    host: str


class ListBindings(Operation[list[BindingView]]):
    """The bindings of a virtual host."""

    host: str


class FindRoute(Operation[list[str]]):
    """The queues to which a message would go now. `headers` is a field table."""

    host: str
    exchange: str
    key: str
    headers: bytes = b""


class AddVirtualHost(Operation[None]):
    """Create a virtual host; no effect if it exists."""

    name: str


class RemoveVirtualHost(Operation[None]):
    """Delete a virtual host with its exchanges and its queues."""

    name: str


class ListVirtualHosts(Operation[list[str]]):
    """The names of the virtual hosts."""


class PublishMessages(Operation[list[Published]]):
    """Route each of these messages, and append it to all its queues."""

    host: str
    publications: list[Publication]


# Queues


class QueueUse(msgspec.Struct, array_like=True):
    """How many messages of a queue are ready, and how many consumers it has."""

    ready: int
    consumers: int
    idle_ms: int = 0  # Since the last use, of a queue with an end of use.
    active_session: str = ""  # With a single active consumer: its session
    active_consumer: int = 0  # and its key there.


class UseQueue(MessageOperation[QueueUse]):
    """Count as a use of the queue; the reply is its state. UNKNOWN_QUEUE if there is none."""

    counts: bool = True  # False: only the state is wanted, and the queue is not used.


class RemoveQueue(QueueOperation[int]):
    """Delete a queue; the reply is the number of its ready messages. QUEUE_IN_USE, QUEUE_NOT_EMPTY."""

    if_unused: bool = False
    if_empty: bool = False


class ClearQueue(MessageOperation[int]):
    """Remove all messages that are ready, and no others; the reply is their number."""


class RetireQueue(QueueOperation[bool]):
    """Delete a queue that nobody uses any more, if it has this topic id and no group has a consumer of it; a group that
    stores the queue asks for it. False if it is in use.
    """

    topic_id: bytes


# Sessions


class SessionOperation(Operation[R_co], Generic[R_co]):
    """An operation on one session, in every replication group that knows it."""

    session: str


class AddConsumer(MessageOperation[None]):
    """Push the messages of a queue to a session, as far as there is credit. QUEUE_IN_USE, UNKNOWN_QUEUE.

    With a `filter`, a selector or a policy, only messages that match; the others stay for other consumers.
    """

    session: str
    key: int
    channel: int
    credit: int
    no_ack: bool = False
    exclusive: bool = False
    priority: int = 0
    filter: str = ""
    stream: StreamStart | None = None  # Of a stream: where it begins.


class CancelConsumer(SessionOperation[None]):
    """Push no more to this consumer."""

    key: int


class GiveCredit(SessionOperation[None]):
    """Let consumers have so many more messages: by consumer key, and by ~channel for the limit of a channel."""

    credits: list[tuple[int, int]]


class WithdrawCredit(SessionOperation[int]):
    """Take credit of a consumer back, as far as it has not used it; the reply is how much was taken."""

    key: int
    credit: int


class LimitChannel(SessionOperation[None]):
    """Let all consumers of one channel of a session together have so many more messages; None: no limit."""

    channel: int
    left: int | None


class TakenMessage(msgspec.Struct, array_like=True):
    """A message and the number of those that are ready behind it; no message if there is none."""

    delivery: Delivery | None = None
    left: int = 0


class TakeMessage(MessageOperation[TakenMessage]):
    """Lease one message to a session, if there is one."""

    session: str
    no_ack: bool = False


class EndHeld(MessageOperation[None]):
    """A session settles, gives back or rejects messages that it holds, and its consumers get credit."""

    session: str
    receipts: list[str]
    how: int
    credits: list[tuple[int, int]]


class CommitTransaction(Operation[list[Published]]):
    """Publish all these messages and end those in one atomic write; an answer with a code means that nothing was done.

    Below the feature level of settles in groups, queues that other groups store cannot be part of that: with them the
    messages are published first, and those that the client has done with end then.
    """

    host: str
    publications: list[Publication]
    ends: list[EndedMessages]


class ReplyDirectly(Operation[bool]):
    """Push a message to a session, past every queue; False if there is no such session."""

    session: str
    delivery: Delivery

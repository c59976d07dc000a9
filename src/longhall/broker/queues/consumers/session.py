"""Sessions: the consumers of one client connection, and the messages that it holds.

A session lives as long as the connection to its client. Its messages are leased without an end that matters; they go
back to their queues when the session is closed. A push is one item with messages for one consumer, or the notice that
the consumer is cancelled.
"""

from __future__ import annotations

from typing import Final, NamedTuple, Protocol, final

import msgspec

from longhall.broker.usage.usage_meter import ACCOUNT
from longhall.queues.messages import Delivery

MOVED: Final = 0  # As the consumer of an empty push: the queue moved, and its consumers have to be added again.
SESSION_LEASE_MS: Final = 365 * 24 * 3_600_000  # A lease this long belongs to a session.
SESSION_ID_BYTES: Final = 12
DIRECT: Final = -1  # The consumer key of a direct reply.


class PushedMessages(msgspec.Struct, array_like=True):
    """Messages for one consumer of a session; without any, the consumer is cancelled."""

    consumer: int
    queue: str
    deliveries: list[Delivery]


class PushSink(Protocol):
    """The receiver of the pushes of a session."""

    @property
    def is_writable(self) -> bool:
        """False while too much is on its way to the client."""

    def push(self, push: PushedMessages) -> None:
        """Send one item."""


class NewConsumer(NamedTuple):
    """A consumer as a client asks for it: messages of a queue, at first as many as `credit`."""

    key: int  # Of the consumer, within its session.
    channel: int
    queue: str
    credit: int
    no_ack: bool
    exclusive: bool
    priority: int
    filter: str = ""  # Only messages that match.


@final
class Consumer:
    """One consumer of a queue. `credit` is how many more messages it may be given; it can be negative.

    Messages that need no acknowledgement use up no limit of the channel, but wait while it is used up.
    """

    def __init__(self, session: ConsumerSession, asked: NewConsumer) -> None:
        self.session = session
        self.key = asked.key
        self.channel = asked.channel
        self.queue = asked.queue
        self.credit = asked.credit
        self.no_ack = asked.no_ack
        self.exclusive = asked.exclusive
        self.priority = asked.priority
        self.filter = asked.filter
        self.account = ACCOUNT.get()  # Whom the messages that it gets are counted for.

    @property
    def is_able(self) -> bool:
        """True if it can be given a message now."""
        if self.credit <= 0 or not self.session.sink.is_writable:
            return False
        limits = self.session.limits
        return not limits or limits.get(self.channel, 1) > 0

    @property
    def room(self) -> int:
        """The number of messages that it can take now."""
        limits = self.session.limits
        return self.credit if self.no_ack or not limits else min(self.credit, limits.get(self.channel, self.credit))

    @property
    def was_served_last(self) -> bool:
        """True if its channel has a limit and no consumer of the session was given a message after it."""
        session = self.session
        if self.channel not in session.limits or len(session.consumers) < 2:
            return False
        return next(reversed(session.consumers)) == self.key

    def take(self, count: int) -> None:
        """Count messages that it is given. Of consumers that share a limit, the one that was served comes last."""
        self.credit -= count
        limits = self.session.limits
        if limits and not self.no_ack and self.channel in limits:
            limits[self.channel] -= count
            consumers = self.session.consumers
            if self.key in consumers:
                consumers[self.key] = consumers.pop(self.key)


@final
class ConsumerSession:
    """The consumers of one connection, by their keys, and the receipts of the messages that it holds, by queue."""

    def __init__(self, session_id: str, sink: PushSink) -> None:
        self.session_id = session_id
        self.sink = sink
        self.consumers: dict[int, Consumer] = {}
        self.held: dict[str, dict[str, None]] = {}
        self.limits: dict[int, int] = {}  # By channel: how many more messages all its consumers may be given.
        self.is_open = True

    def hold(self, queue: str, receipts: list[str]) -> None:
        """The client has these messages."""
        self.held.setdefault(queue, {}).update(dict.fromkeys(receipts))

    def release(self, queue: str, receipts: list[str]) -> None:
        """The client is done with these."""
        held = self.held.get(queue)
        if held is None:
            return
        for receipt in receipts:
            held.pop(receipt, None)
        if not held:
            del self.held[queue]

"""The outboxes of a replication group: one for each queue of another group that messages wait for.

An outbox is a log (its *stream*) and four fields. Its messages cost no memory, however many wait.

    next_offset    the messages below it are delivered
    topic_id       the incarnation of the target that the next messages are meant for, empty before the first attempt
    until          the messages below it, from `next_offset` on, may be delivered already

Invariant: a message is sent only after an `OutboxAimed` that covers it is committed. So every later leader knows which
messages an earlier leader may have delivered, and to which incarnation of the target: a message never reaches two.

This module does not read logs and does not know where queues are. `missing` and `under_way` are not part of the state:
they are what is known since the process leads.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any, Final, final

from longhall.errors import Code
from longhall.queues.outbox_events import OutboxAimed, OutboxClosed, OutboxEvent, OutboxOpened

STREAMS_MAX: Final = 10_000  # Targets of one group with an outbox.


class OutboxListener:
    """The delivery of outboxes as writers see it; a group that does not lead has none."""

    def put(self, stream: int) -> None:
        """A message was written to an outbox."""

    def arrival(self, stream: int, behind: int) -> Awaitable[None] | None:
        """Done when the messages below this offset have arrived, or a moment later; None if nobody should wait."""
        return None


@final
class Outbox:
    """The outbox for one target."""

    def __init__(self, stream: int, target: str) -> None:
        self.stream = stream
        self.target = target
        self.next_offset = 0
        self.topic_id = b""
        self.until = 0

    def row(self) -> list[Any]:
        """For a snapshot."""
        return [self.stream, self.target, self.next_offset, self.topic_id, self.until]


@final
class Outboxes:
    """All outboxes of a group, by target and by stream."""

    def __init__(self) -> None:
        self.by_stream: dict[int, Outbox] = {}
        self.by_target: dict[str, Outbox] = {}
        self.missing: set[str] = set()  # Targets that do not exist, as the hall answered last.
        self.under_way: dict[str, int] = {}  # By target: sends past the outbox that began before its first message.

    def decide_open(self, stream: int, target: str) -> OutboxOpened | Code:
        """Open an outbox over a new log."""
        assert target not in self.by_target
        if len(self.by_stream) >= STREAMS_MAX:
            return Code.QUEUE_FULL
        return OutboxOpened(stream=stream, target=target)

    def decide_aim(self, stream: int, next_offset: int, topic_id: bytes, until: int) -> OutboxAimed:
        """Confirm deliveries below `next_offset`, and allow those below `until` to this incarnation of the target."""
        assert next_offset >= self.by_stream[stream].next_offset
        return OutboxAimed(stream=stream, next_offset=next_offset, topic_id=topic_id, until=max(until, next_offset))

    def decide_close(self, stream: int) -> OutboxClosed:
        """Close an empty outbox."""
        return OutboxClosed(stream=stream)

    def apply(self, event: OutboxEvent) -> None:
        """Apply an event, as it happens or in a replay."""
        if isinstance(event, OutboxOpened):
            outbox = Outbox(event.stream, event.target)
            self.by_stream[event.stream] = outbox
            self.by_target[event.target] = outbox
        elif isinstance(event, OutboxAimed):
            outbox = self.by_stream[event.stream]
            outbox.next_offset, outbox.topic_id, outbox.until = event.next_offset, event.topic_id, event.until
        else:
            outbox = self.by_stream.pop(event.stream)
            del self.by_target[outbox.target]

    def snapshot(self) -> list[Any]:
        """For `restore`."""
        return [outbox.row() for _, outbox in sorted(self.by_stream.items())]

    def restore(self, state: list[Any]) -> None:
        """Take the state of a `snapshot`."""
        for stream, target, next_offset, topic_id, until in state:
            outbox = Outbox(stream, target)
            outbox.next_offset, outbox.topic_id, outbox.until = next_offset, topic_id, until
            self.by_stream[stream] = outbox
            self.by_target[target] = outbox

"""The log events of outboxes, and the form of a message in one. The meaning of a released event never changes.

The tag is stored and identifies the event. Fields are only added, with defaults; unknown ones are ignored, so that
versions can mix.
"""

from __future__ import annotations

import msgspec

from longhall.queues.messages import Outgoing


class OutboxOpened(msgspec.Struct, kw_only=True, frozen=True, tag="outbox-opened"):
    """Messages for the queue `target` wait in the log `stream`. The number of a log is never used again."""

    stream: int
    target: str


class OutboxAimed(msgspec.Struct, kw_only=True, frozen=True, tag="outbox-aimed"):
    """The messages below `next_offset` are delivered. Those from there to `until` may be delivered from now on, to the
    incarnation `topic_id` of the target and to no other.
    """

    stream: int
    next_offset: int
    topic_id: bytes = b""
    until: int = 0


class OutboxClosed(msgspec.Struct, kw_only=True, frozen=True, tag="outbox-closed"):
    """The outbox is empty and its log is gone."""

    stream: int


OutboxEvent = OutboxOpened | OutboxAimed | OutboxClosed


class OutboxEntry(msgspec.Struct, array_like=True, omit_defaults=True):
    """One message for a queue of another group, as the outbox stores it and as it is sent there.

    A message that was accepted before (a dead letter, a move, a delivery report) is the record that the target stores.
    A new one (an answer, a publication) is `message`: the rules of the target queue apply to it. Only entries that
    `waits` outlive their target: they wait until a queue of its name exists again.
    """

    priority: int = 0
    group: str = ""
    timestamp_ms: int = 0
    key: bytes | None = None
    value: bytes | None = None
    headers: list[tuple[str, bytes | None]] = []
    message: Outgoing | None = None
    message_id: str = ""
    waits: bool = False


class OutboxBatch(msgspec.Struct, array_like=True):
    """Messages of one outbox, in order, each with its offset.

    Source group, stream and offset identify a message for ever: the target drops what it has from this stream.
    """

    source: int  # The number of the group; 0: the hall.
    stream: int
    rows: list[tuple[int, OutboxEntry]]


class QueueLocation(msgspec.Struct, array_like=True):
    """The current incarnation of a queue, and the largest message that it takes in one record."""

    topic_id: bytes
    message_bytes_max: int = 0
    fifo: bool = False
    deduplicates: bool = False
    needs_id: bool = False  # It refuses messages without a deduplication id.
    refuses_when_full: bool = False


entry_encoder = msgspec.msgpack.Encoder()
entry_decoder = msgspec.msgpack.Decoder(OutboxEntry)
outbox_decoder: msgspec.msgpack.Decoder[OutboxEvent] = msgspec.msgpack.Decoder(OutboxEvent)

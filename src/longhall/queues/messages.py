"""The structures that doors and the broker exchange about queues and their messages."""

from __future__ import annotations

from typing import Final

import msgspec

from longhall.errors import Code
from longhall.queues.settings import QueueSettings

# An attribute keeps the type that its sender gave: "String", "Number", "Binary" or one of those with ".suffix".
Attribute = tuple[str, bytes]


# Times to live of a message that is delivered at once or never. Only the hall that appends it decides which holds.
OVER: Final = -2  # No consumer waits: nobody sees the message.
UNTIL_DELIVERED: Final = -3  # A consumer waits: the message ends when it is given back.


class QueueView(msgspec.Struct, frozen=True, kw_only=True):
    """Name, id and settings of a queue, whether it is paused, and whether it ends unless its connection comes back.
    `topic` is the topic that a queue is over, or the queue that it was forked from; empty if its messages are its own.
    """

    name: str
    queue_id: str
    settings: QueueSettings
    created_ms: int = 0
    modified_ms: int = 0
    paused: bool = False
    awaits_owner: bool = False
    topic: str = ""


class Outgoing(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One message to send. `due_ms` is hall time; 0 means at once, after the queue's own delay."""

    body: bytes
    attributes: dict[str, Attribute] = {}
    system: dict[str, str] = {}  # A door's own fields that travel with the message (AWSTraceHeader, content-type ...).
    key: bytes | None = None
    group: str = ""
    deduplication_id: str = ""
    delay_ms: int = -1  # -1: the queue's.
    time_to_live_ms: int = -1  # -1: the queue's.
    priority: int = 0  # 0 is the lowest.
    reply_to: str = ""
    correlation_id: str = ""
    report_fate: bool = False  # Send a delivery report to the reply queue.
    stamp: int = 0  # The sender's order: a higher stamp is newer. 0: none.
    amqp: bytes = b""  # Exchange, routing key and properties: `exchanges/properties.py`.
    seal: bytes = b""  # `records/seal.py`: `body` is ciphertext, and bound to `message_id`.
    message_id: str = ""  # Given by `front` to what it seals; otherwise the broker draws one.


class WriteBack(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Messages that a consumer sends as it settles: to a queue, or to a topic (partition -1: by the key)."""

    queue: str = ""
    topic: str = ""
    partition: int = -1
    messages: list[Outgoing] = []


class Accepted(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The reply to one sent message: its id and sequence number, or the error."""

    code: Code | None = None
    message: str = ""
    message_id: str = ""
    sequence: int = -1  # The sequence number, for FIFO queues.
    repeated: bool = False  # A repeated send, with the reply to the first one.


class Delivery(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One delivered message."""

    message_id: str
    receipt: str  # Opaque, and bound to the queue and to this lease: `queues/receipts.py`. Empty with at-most-once.
    body: bytes
    attributes: dict[str, Attribute] = {}
    system: dict[str, str] = {}
    key: bytes | None = None
    group: str = ""
    deduplication_id: str = ""
    partition: int = -1  # Of its topic; -N: the lane of priority N.
    offset: int = -1
    sequence: int = -1  # For FIFO queues: rises within a group, over all partitions.
    stamp: int = 0
    sent_ms: int = 0
    first_received_ms: int = 0
    attempts: int = 1
    attempts_before: int = 0  # For dead letters: attempts in the source queue.
    priority: int = 0
    sender: str = ""
    reply_to: str = ""
    correlation_id: str = ""
    report_fate: bool = False  # True if the sender wants a delivery report.
    fate: str = ""  # For delivery reports: see `queues/delivery_reports.py`.
    dead_letter_source: str = ""  # For dead letters: the source queue.
    dead_letter_reason: str = ""
    parts: int = 0  # For messages larger than one reply: `body` is empty and is read in this many parts.
    whole_bytes: int = 0  # The size of the body then. A browser of the queue gets a note of the size as `body`.
    amqp: bytes = b""  # As in `Outgoing`; empty if the message came through another door.
    seal: bytes = b""  # As in `Outgoing`; `front` opens the body, and no door sees a delivery with a seal.


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """One failed attempt: a delivery without a settle."""

    received_ms: int
    ended_ms: int
    how: str  # "returned" by the consumer, or "lapsed": the lease expired.


class Letter(msgspec.Struct, kw_only=True):
    """A message of a queue as an operator sees it, with the cause and history if it is a dead letter."""

    message_id: str
    lane: int
    offset: int
    body: bytes
    attributes: dict[str, Attribute] = {}
    key: bytes | None = None
    group: str = ""
    priority: int = 0
    sent_ms: int = 0
    died_ms: int = 0  # 0 if it is not a dead letter.
    reason: str = ""
    source: str = ""
    attempts: int = 0  # In the source queue.
    first_received_ms: int = 0
    history: list[Attempt] = []  # The last attempts in the source queue, oldest first.
    deaths: list[str] = []  # One line for each dead-lettering: time, attempts, reason, source.
    reply_to: str = ""
    correlation_id: str = ""
    leased: bool = False  # Leased messages can be neither edited nor moved.
    seal: bytes = b""  # As in `Delivery`.


class LetterPage(msgspec.Struct, kw_only=True):
    """A page of letters, and where the next page begins."""

    letters: list[Letter]
    next_from: str = ""  # Empty on the last page.


class Depth(msgspec.Struct, kw_only=True):
    """The message counts and the size of a queue."""

    available: int = 0
    in_flight: int = 0
    delayed: int = 0
    bytes: int = 0
    oldest_age_ms: int = 0
    parts: int = 1  # Partitions that accept messages,
    parts_going: int = 0  # and partitions that only drain before they are hidden.
    generation: int = 0  # The number of changes of the partition count.


class Counts(msgspec.Struct, kw_only=True):
    """The counters of a queue."""

    sends: int = 0  # Messages sent since the node started, without repeats.
    deliveries: int = 0
    settles: int = 0  # Messages that consumers settled since the node started.
    outlived: int = 0  # Settles after the end of the lease.
    safe_lease_ms: int = 0  # A lease long enough for 99 of 100 settles; 0 if unknown.
    deaths: dict[str, int] = {}  # By reason.
    fates: dict[str, int] = {}  # Delivery reports sent since the node started, by fate.
    fates_lost: int = 0  # Reports not sent because the reply queue was gone or full.


class Seen(msgspec.Struct, kw_only=True):
    """A browsed message. Its delivery has no receipt."""

    lane: int  # The Kafka partition; -N: the lane of priority N; for delayed messages the target.
    offset: int  # -1 for delayed messages.
    state: str  # "waiting", "leased", "delayed" (not due yet, or in a retry delay) or "settled".
    until_ms: int = 0  # When the lease ends or the delay is over.
    delivery: Delivery


class Page(msgspec.Struct, kw_only=True):
    """A page of browsed messages. `next` is the `from_offset` of the next page; empty on the last page."""

    messages: list[Seen] = []
    next: str = ""
    looked_at: int = 0


class MoveTask(msgspec.Struct, kw_only=True):
    """A redrive task: moves messages of a dead-letter queue to their source or to another queue."""

    task_id: str
    source: str
    target: str = ""  # Empty: each message goes to its source queue.
    rate_max: int = 0  # Messages a second; 0: unlimited.
    state: str = "RUNNING"  # RUNNING, COMPLETED, CANCELLING, CANCELLED, FAILED.
    moved: int = 0
    to_move: int = 0
    started_ms: int = 0
    failure: str = ""
    ids: list[str] = []  # Only these messages; empty: all.
    filter: str = ""  # Only messages that match this filter policy.

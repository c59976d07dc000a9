"""Messages on their way through a queue, as doors and the broker hand them to each other."""

from __future__ import annotations

import msgspec

from longhall.errors import Code
from longhall.queues.settings import QueueSettings

# An attribute keeps the type that its sender gave: "String", "Number", "Binary" or one of those with ".suffix".
Attribute = tuple[str, bytes]


class QueueView(msgspec.Struct, frozen=True, kw_only=True):
    """A queue as it stands now."""

    name: str
    queue_id: str
    settings: QueueSettings
    created_ms: int = 0
    modified_ms: int = 0
    paused: bool = False


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
    report_fate: bool = False  # Tell the reply queue what became of it.


class Accepted(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The answer to one sent message: where it is, or why not."""

    code: Code | None = None
    message: str = ""
    message_id: str = ""
    sequence: int = -1  # Its number in the queue, for FIFO queues.
    repeated: bool = False  # A repeat of an earlier one, answered as that was.


class Delivery(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One message given out."""

    message_id: str
    receipt: str  # Opaque and MACed; bound to the queue and to this lease. Empty with at-most-once.
    body: bytes
    attributes: dict[str, Attribute] = {}
    system: dict[str, str] = {}
    key: bytes | None = None
    group: str = ""
    deduplication_id: str = ""
    sequence: int = -1
    sent_ms: int = 0
    first_received_ms: int = 0
    attempts: int = 1
    attempts_before: int = 0  # In the queue it died in, for what is in a dead-letter queue.
    priority: int = 0
    sender: str = ""
    reply_to: str = ""
    correlation_id: str = ""
    report_fate: bool = False  # Whether the sender wants to hear what became of it.
    fate: str = ""  # This message tells of another one: see `queues/delivery_reports.py`.
    dead_letter_source: str = ""  # The queue it died in, for what is in a dead-letter queue.
    dead_letter_reason: str = ""
    parts: int = 0  # Larger than one answer: `body` is empty, and these many parts of it can be read one by one.
    whole_bytes: int = 0  # Its size then. Who only looks at a message gets no part of it: `body` is a note of its size.


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """One time that a message was given out without being settled."""

    received_ms: int
    ended_ms: int
    how: str  # "returned" by its consumer, or "lapsed": its lease ended.


class Letter(msgspec.Struct, kw_only=True):
    """A message of a queue as an operator sees it, with all that is known of its death if it had one."""

    message_id: str
    lane: int
    offset: int
    body: bytes
    attributes: dict[str, Attribute] = {}
    key: bytes | None = None
    group: str = ""
    priority: int = 0
    sent_ms: int = 0
    died_ms: int = 0  # 0 for what did not die.
    reason: str = ""
    source: str = ""
    attempts: int = 0  # Before it died.
    first_received_ms: int = 0
    history: list[Attempt] = []  # Of the attempts before it died, the last ones, oldest first.
    deaths: list[str] = []  # All its deaths, a line each: time, attempts, reason, source.
    reply_to: str = ""
    correlation_id: str = ""
    leased: bool = False  # Somebody has it now: it can neither be edited nor moved.


class LetterPage(msgspec.Struct, kw_only=True):
    """Some letters, and where the next ones begin."""

    letters: list[Letter]
    next_from: str = ""  # Empty: there are no more.


class Depth(msgspec.Struct, kw_only=True):
    """How full a queue is."""

    available: int = 0
    in_flight: int = 0
    delayed: int = 0
    bytes: int = 0
    oldest_age_ms: int = 0
    parts: int = 1  # Logs that it is spread over,
    parts_going: int = 0  # and those beside them that take nothing more and go when they are drained.
    generation: int = 0  # How often that has changed.


class Counts(msgspec.Struct, kw_only=True):
    """What a queue has counted."""

    sends: int = 0  # Messages that producers sent since the node started, repeats left out.
    deliveries: int = 0
    outlived: int = 0  # Settles that came after the end of their lease.
    safe_lease_ms: int = 0  # A lease that would have been long enough for 99 of 100; 0 when nothing is known.
    deaths: dict[str, int] = {}  # By reason.
    fates: dict[str, int] = {}  # Told to reply queues since the node started, by fate.
    fates_lost: int = 0  # Not told, because the reply queue was gone or full.


class Seen(msgspec.Struct, kw_only=True):
    """A message that somebody looked at without taking it. Its delivery has no receipt."""

    lane: int  # The partition as Kafka numbers them; -N: the lane of priority N; of a delayed one, where it will go.
    offset: int  # -1 while it is delayed: it has no place yet.
    state: str  # "waiting", "leased", "delayed" (not due yet, or given back and not tried again yet) or "settled".
    until_ms: int = 0  # When the lease ends or the delay is over.
    delivery: Delivery


class Page(msgspec.Struct, kw_only=True):
    """A stretch of a queue. `next` goes on behind it, as `from_offset` of the next look; empty: that was all."""

    messages: list[Seen] = []
    next: str = ""
    looked_at: int = 0


class MoveTask(msgspec.Struct, kw_only=True):
    """A redrive: messages of a dead-letter queue on their way back, or to another queue."""

    task_id: str
    source: str
    target: str = ""  # Empty: each to the queue it came from.
    rate_max: int = 0  # Messages a second; 0 is as fast as it goes.
    state: str = "RUNNING"  # RUNNING, COMPLETED, CANCELLING, CANCELLED, FAILED.
    moved: int = 0
    to_move: int = 0
    started_ms: int = 0
    failure: str = ""
    ids: list[str] = []  # Only these messages; empty: all.
    filter: str = ""  # Only those that this filter policy wants.

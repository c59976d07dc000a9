"""The settings of a queue, with bounds in the types.

The log stores all settings of a queue; unknown fields of a newer version are ignored when they are read back. Doors
validate user input before it gets here, in their own dialect.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

_Milliseconds = Annotated[int, Meta(ge=0, le=10 * 365 * 24 * 3_600_000)]
_Count = Annotated[int, Meta(ge=0)]

MANAGED_KEY: Final = "managed"  # As `sealed`: the master key that the node has for queues which name none.
WINDOWS_MAX: Final = 23  # Windows of delivery hours beside the first.


class RetryPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """The retry delay of returned messages: exponential backoff."""

    first_ms: _Milliseconds = 0
    lapsed: bool = False  # An expired lease is a failure too: the message comes back after the retry delay.
    # A retry queue: what is sent to it has failed elsewhere, and is available after the retry delay of its attempts.
    sends: bool = False
    factor: Annotated[float, Meta(ge=1.0, le=100.0)] = 2.0
    longest_ms: _Milliseconds = 3_600_000


class DeadLetters(msgspec.Struct, frozen=True, kw_only=True):
    """The dead-letter queue, and the number of attempts before a message moves there."""

    queue: str
    attempts_max: Annotated[int, Meta(ge=1, le=1000)] = 10
    on_delete: bool = True  # Messages of a deleted queue go there too,
    after_delete: bool = False  # and so does what arrives for it later.


class DeliveryWindow(msgspec.Struct, frozen=True, kw_only=True):
    """A window of the day, in minutes; from > to spans midnight."""

    from_minute: Annotated[int, Meta(ge=0, lt=1440)]
    to_minute: Annotated[int, Meta(ge=0, le=1440)]


class DeliveryHours(msgspec.Struct, frozen=True, kw_only=True):
    """Deliver only in this window of the day and in the others of `also`; see `queues/hours.py`."""

    from_minute: Annotated[int, Meta(ge=0, lt=1440)]
    to_minute: Annotated[int, Meta(ge=0, le=1440)]
    also: Annotated[tuple[DeliveryWindow, ...], Meta(max_length=WINDOWS_MAX)] = ()
    zone: Annotated[str, Meta(min_length=1, max_length=64)] = "UTC"  # A name of the IANA time zone database.


class AmqpSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What AMQP declares of a queue. `arguments` is the field table as it was declared, for comparison."""

    host: str
    name: str
    durable: bool = True
    auto_delete: bool = False  # The queue is deleted with its last consumer.
    owner: str = ""  # The session of the only connection that may use the queue, and with which it ends.
    arguments: bytes = b""
    expires_ms: _Milliseconds = 0  # The queue is deleted after this time without use.
    deliveries_max: _Count = 0  # A message dies instead of one delivery more.
    letters_exchange: str | None = None  # Where dead messages are published,
    letters_key: str | None = None  # under this routing key instead of their own.
    letters_refused: bool = False  # What a full queue refuses is a dead message.
    letters_wait: bool = False  # A dead message stays while a queue that it goes to is full.
    single_active: bool = False  # One consumer at a time; the next takes over when it leaves.
    is_stream: bool = False  # Consumers read the log, and remove nothing.
    stream_bytes_max: _Count = 0  # Of a stream: the oldest segments beyond it are removed.
    stream_segment_bytes: _Count = 0
    has_no_room: bool = False  # The queue refuses every message while it refuses what is too much: a length of 0.


class QueueSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of one queue. Times are milliseconds, sizes bytes; 0 means "no bound" unless noted."""

    lease_ms: _Milliseconds = 30_000
    delay_ms: _Milliseconds = 0
    wait_ms: _Milliseconds = 0  # The default wait of a long poll.
    retention_ms: _Milliseconds = 14 * 24 * 3_600_000
    time_to_live_ms: _Milliseconds = 0  # 0: until retention ends.
    message_bytes_max: Annotated[int, Meta(ge=1024, le=1 << 30)] = 256 * 1024
    whole_bytes_max: Annotated[int, Meta(ge=0, le=10 << 30)] = (
        0  # Larger messages are stored in chunks up to this; 0: refused.
    )
    messages_max: _Count = 0
    bytes_max: _Count = 0
    when_full: Literal["wait", "refuse", "drop-oldest", "dead-letter"] = "refuse"
    in_flight_max: Annotated[int, Meta(ge=1, le=10_000_000)] = 120_000
    priorities: Annotated[int, Meta(ge=1, le=256)] = 1  # Levels, 0 the lowest; a FIFO queue has one.
    fifo: bool = (
        False  # Ordered within a group, parallel across groups; a group blocks while one of its messages is in flight.
    )
    fair: bool = True  # Without fifo: message groups are served in turn.
    # A stamped message that is older than one already delivered: its place is by arrival, or the head of the queue.
    late_stamped: Literal["arrival", "head"] = "arrival"
    one_by_one: bool = False  # Delivers the next message only after the last one is settled, returned or dead.
    delivery: Literal["at-most-once", "at-least-once", "exactly-once"] = "at-least-once"
    deduplication: Literal["off", "id", "content"] = "off"
    deduplication_scope: Literal["queue", "group"] = "queue"
    deduplication_window_ms: _Milliseconds = 300_000
    repeated_sends: Literal["answer", "refuse"] = "answer"
    settled: Literal["free", "keep"] = "free"
    acknowledge: Literal["one", "quorum", "all"] = (
        "all"  # Hosts of a cluster that must have a message before it is acknowledged.
    )
    profile: Literal["balanced", "throughput", "latency"] = (
        "balanced"  # The batching of producers, broker and consumers: see `records/profiles.py`.
    )
    dead_letters: DeadLetters | None = None
    retry: RetryPolicy | None = None
    hours: DeliveryHours | None = None
    audit: Literal["off", "deliveries"] = "off"
    filter: str = ""  # Of a queue over a topic: only matching messages are in the queue. Empty: all.
    partitions: Annotated[int, Meta(ge=1, le=1000)] = 1
    parts_max: Annotated[int, Meta(ge=1, le=1000)] = 1  # The queue grows up to this many parts; see `queues/parts.py`.
    grow_at: Annotated[int, Meta(ge=1, le=100)] = 80  # Percent of the capacity of the open parts.
    shrink_at: Annotated[int, Meta(ge=0, le=99)] = 20
    shrink_after_ms: _Milliseconds = 60_000  # The time below `shrink_at` before the queue shrinks.
    placement: str = ""  # Stored by the hall itself, or by wings: see `broker/placement.py`. Empty: not chosen yet.
    wings: tuple[int, ...] = ()  # The numbers of its wings, one for each lane.
    tags: dict[str, str] = {}
    door: dict[str, str] = {}  # Data of a door (SQS: policies, KMS ids), by its own names.
    # The master key under which bodies are sealed before the broker gets them; empty: not sealed. See docs/security.md.
    sealed: Annotated[str, Meta(max_length=2048)] = ""
    # How long a process uses a data key before it asks the key provider for it again.
    seal_reuse_ms: Annotated[int, Meta(ge=60_000, le=86_400_000)] = 300_000
    amqp: AmqpSettings | None = None  # Of a queue that AMQP has declared.

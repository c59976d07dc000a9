"""Everything that can be chosen about a queue, with bounds in the types.

A queue is stored with its settings whole; unknown fields of a newer version are passed over, not refused, because these
are read back from the log. Doors check what people write before it gets here, in their own dialect.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

_Milliseconds = Annotated[int, Meta(ge=0, le=10 * 365 * 24 * 3_600_000)]
_Count = Annotated[int, Meta(ge=0)]


class RetryPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """What happens to a message that was given back: it waits, longer each time."""

    first_ms: _Milliseconds = 0
    factor: Annotated[float, Meta(ge=1.0, le=100.0)] = 2.0
    longest_ms: _Milliseconds = 3_600_000


class DeadLetters(msgspec.Struct, frozen=True, kw_only=True):
    """Where a message goes that cannot be delivered, and after how many attempts."""

    queue: str
    attempts_max: Annotated[int, Meta(ge=1, le=1000)] = 10
    on_delete: bool = True  # What is in the queue when it is deleted goes there too.


class DeliveryHours(msgspec.Struct, frozen=True, kw_only=True):
    """Give out only between these minutes of the day (UTC); from > to runs over midnight."""

    from_minute: Annotated[int, Meta(ge=0, lt=1440)]
    to_minute: Annotated[int, Meta(ge=0, le=1440)]


class QueueSettings(msgspec.Struct, frozen=True, kw_only=True):
    """One queue. Times in milliseconds, sizes in bytes; 0 means "no bound" where nothing else is said."""

    lease_ms: _Milliseconds = 30_000
    delay_ms: _Milliseconds = 0
    wait_ms: _Milliseconds = 0  # Long polling when a receiver does not say.
    retention_ms: _Milliseconds = 14 * 24 * 3_600_000
    time_to_live_ms: _Milliseconds = 0  # 0: until retention ends.
    message_bytes_max: Annotated[int, Meta(ge=1024, le=1 << 30)] = 256 * 1024
    whole_bytes_max: Annotated[int, Meta(ge=0, le=10 << 30)] = 0  # Larger ones go in chunks up to this; 0: refused.
    messages_max: _Count = 0
    bytes_max: _Count = 0
    when_full: Literal["wait", "refuse", "drop-oldest", "dead-letter"] = "refuse"
    in_flight_max: Annotated[int, Meta(ge=1, le=10_000_000)] = 120_000
    priorities: Annotated[int, Meta(ge=1, le=255)] = 1  # Levels, 0 the lowest; a FIFO queue has one.
    fifo: bool = False  # Order inside a group, parallel across groups, a group blocked while one of it is in flight.
    fair: bool = True  # Without fifo: groups, where messages name one, are served in turn.
    one_by_one: bool = False  # The next message only after the one before is settled, given back or dead.
    delivery: Literal["at-most-once", "at-least-once", "exactly-once"] = "at-least-once"
    deduplication: Literal["off", "id", "content"] = "off"
    deduplication_scope: Literal["queue", "group"] = "queue"
    deduplication_window_ms: _Milliseconds = 300_000
    repeated_sends: Literal["answer", "refuse"] = "answer"
    settled: Literal["free", "keep"] = "free"
    acknowledge: Literal["one", "quorum", "all"] = "all"  # How many of a cluster's hosts have a message that was taken.
    dead_letters: DeadLetters | None = None
    retry: RetryPolicy | None = None
    hours: DeliveryHours | None = None
    audit: Literal["off", "deliveries"] = "off"
    filter: str = ""  # Of a queue over a topic: only what fits stands in it. Empty: everything.
    partitions: Annotated[int, Meta(ge=1, le=1000)] = 1
    parts_max: Annotated[int, Meta(ge=1, le=1000)] = 1  # It grows to so many when it is full; see `queues/parts.py`.
    grow_at: Annotated[int, Meta(ge=1, le=100)] = 80  # Percent of what its parts hold.
    shrink_at: Annotated[int, Meta(ge=0, le=99)] = 20
    shrink_after_ms: _Milliseconds = 60_000  # For so long it must have been less.
    placement: str = "hall"  # In a cluster: kept by the hall itself, or by wings; see `broker/placement.py`.
    wings: tuple[int, ...] = ()  # Where it was placed then: the numbers of the wings, one for each lane.
    tags: dict[str, str] = {}
    door: dict[str, str] = {}  # What a door keeps for itself (SQS: policies, KMS ids), by its own names.

"""The events of a queue in the log. The meaning of a released event never changes.

Each event names its queue. The offsets of one event belong to one lane, which is the partition id of its log. The event
that makes messages outstanding has their sizes and groups, in the order of offsets; later events name them by offset.
The end of a lease is not an event: it follows from the deadline and the time.
"""

from __future__ import annotations

import msgspec


class _Event(msgspec.Struct, kw_only=True, frozen=True, tag_field="event"):
    """The base of all queue events; the tag is stored and identifies the event."""

    queue: int


class LaneOpened(_Event, frozen=True, tag="lane-opened"):
    """The queue delivers messages of this log too, from `start` on. Higher priorities are delivered first."""

    lane: int
    priority: int = 0
    start: int = 0


class Passed(_Event, frozen=True, tag="passed"):
    """The scan moved to `next_offset`; these offsets were passed without delivery and are outstanding now.

    The other offsets that were passed have no deliverable message. `owners` are indexes into `names`, one an offset;
    both are empty if no message has a group.
    """

    lane: int
    next_offset: int
    offsets: list[int] = []
    sizes: list[int] = []
    names: list[str] = []
    owners: list[int] = []


class Leased(_Event, frozen=True, tag="leased", omit_defaults=True):
    """These were leased until the deadline, with the lease numbers from `first_number` on.

    The last `len(sizes)` of them are new: they are at or above the scan, which moves to `next_offset` (-1: it stays).
    `settled` is True for at-most-once delivery: this event settles them too. `stamp` is the newest stamp of these,
    where the queue goes by stamps.
    """

    lane: int
    offsets: list[int]
    first_number: int
    at_ms: int
    deadline_ms: int
    next_offset: int = -1
    sizes: list[int] = []
    names: list[str] = []
    owners: list[int] = []
    settled: bool = False
    stamp: int = 0


class Settled(_Event, frozen=True, tag="settled"):
    """These are settled. Settling a settled message changes nothing."""

    lane: int
    offsets: list[int]
    at_ms: int


class Extended(_Event, frozen=True, tag="extended"):
    """The deadline of a lease has changed."""

    lane: int
    offset: int
    deadline_ms: int


class Returned(_Event, frozen=True, tag="returned"):
    """A message was returned; it is available again from `visible_ms` on.

    `unseen` is True if no consumer has seen it: the attempt does not count.
    """

    lane: int
    offset: int
    at_ms: int
    visible_ms: int
    unseen: bool = False


class Died(_Event, frozen=True, tag="died"):
    """These left the queue without a settle: moved to the dead-letter queue in the same atomic write, or dropped."""

    lane: int
    offsets: list[int]
    reason: str


class Withdrawn(_Event, frozen=True, tag="withdrawn"):
    """An operator edited or moved these; the new copies are in the same atomic write."""

    lane: int
    offsets: list[int]


class Purged(_Event, frozen=True, tag="purged"):
    """Everything below these offsets (lane, offset) is gone; `messages` and `bytes` are left in the queue.

    `forgets` is True if the deduplication window is empty from here on, so that the same ids can be sent again.
    """

    positions: list[tuple[int, int]]
    at_ms: int
    messages: int = 0
    bytes: int = 0
    forgets: bool = False


class Rewound(_Event, frozen=True, tag="rewound"):
    """The scan of a lane moved back: everything from this offset on is delivered again. The counts are the new ones."""

    lane: int
    offset: int
    messages: int
    bytes: int


class Switched(_Event, frozen=True, tag="switched"):
    """The queue was paused or resumed."""

    paused: bool


class Recounted(_Event, frozen=True, tag="recounted"):
    """New counts: retention or an aborted transaction removed messages without the cursor."""

    messages: int
    bytes: int


class Marked(_Event, frozen=True, tag="marked"):
    """Groups may use other lanes from here on: messages below these ends (lane, offset) are delivered before messages
    of their group above the ends in other lanes, and have sequence numbers below `base`. The oldest `forget` marks are
    dropped.
    """

    ends: list[tuple[int, int]]
    base: int = 0
    forget: int = 0


class Arrived(_Event, frozen=True, tag="arrived"):
    """All messages of an outbox of another group up to this one are here. In one entry with the last of them."""

    source: int  # The number of the group; 0: the hall.
    stream: int
    offset: int


class Held(_Event, frozen=True, tag="held"):
    """A transaction that is about to commit holds these: their leases last until its outcome, whatever their deadlines.

    The offsets have the lease numbers of `numbers`. Senders of those in `reported` want a delivery report.
    """

    producer_id: int
    coordinator_epoch: int
    lane: int
    offsets: list[int]
    numbers: list[int]
    reported: list[int] = []
    rejected: bool = False  # The commit rejects them instead of settling them.


class HoldsEnded(_Event, frozen=True, tag="holds-ended"):
    """The outcome of a producer's transaction is carried out: what it held and did not end has its deadline again."""

    producer_id: int
    coordinator_epoch: int


class StateCopied(_Event, frozen=True, tag="state-copied"):
    """A piece of the state that the queue had in the group from which it moves here: `at` is its place in the `total`
    bytes. With the last piece the queue takes the state.
    """

    at: int
    total: int
    piece: bytes


class Emptied(_Event, frozen=True, tag="emptied"):
    """The queue has nothing but these lanes, which are empty: its messages moved to another group, or do not come."""

    lanes: list[int]


QueueEvent = (
    LaneOpened
    | Passed
    | Leased
    | Settled
    | Extended
    | Returned
    | Died
    | Withdrawn
    | Purged
    | Rewound
    | Switched
    | Recounted
    | Marked
    | Arrived
    | Held
    | HoldsEnded
    | StateCopied
    | Emptied
)

encoder = msgspec.msgpack.Encoder()
decoder: msgspec.msgpack.Decoder[QueueEvent] = msgspec.msgpack.Decoder(QueueEvent)

"""What a queue writes to the log besides messages. The meaning of an event never changes once it is released.

Each carries its queue. Offsets of one event belong to one lane; a lane is the partition id of its log. What becomes
outstanding (known by more than the scan position) is told once, with its size and group, in the order of its offsets;
later events name it by its offset alone. The end of a lease is no event: it follows from the deadline and the time.
"""

from __future__ import annotations

import msgspec


class _Event(msgspec.Struct, kw_only=True, frozen=True, tag_field="event"):
    """Events are told apart by their tag, which is stored."""

    queue: int


class LaneOpened(_Event, frozen=True, tag="lane-opened"):
    """The queue gives out messages of this log too, from `start` on. Higher priorities go first."""

    lane: int
    priority: int = 0
    start: int = 0


class Passed(_Event, frozen=True, tag="passed"):
    """The scan stands at `next_offset`; these were passed without being given out and are outstanding now.

    Every other offset that was passed is no message, or one that nobody is to see. `owners` are indexes into `names`,
    one an offset; both are empty where no message names a group.
    """

    lane: int
    next_offset: int
    offsets: list[int] = []
    sizes: list[int] = []
    names: list[str] = []
    owners: list[int] = []


class Leased(_Event, frozen=True, tag="leased"):
    """These were given out, under the lease numbers from `first_number` on, until the deadline.

    The last `len(sizes)` of them are new: they lie at or above the scan, which moves to `next_offset` (-1: it stays).
    `settled`: delivered at most once, so they are settled with this.
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


class Settled(_Event, frozen=True, tag="settled"):
    """These are done with. Settling what is settled changes nothing."""

    lane: int
    offsets: list[int]
    at_ms: int


class Extended(_Event, frozen=True, tag="extended"):
    """A lease ends at another time."""

    lane: int
    offset: int
    deadline_ms: int


class Returned(_Event, frozen=True, tag="returned"):
    """A message was given back; it is available again from `visible_ms` on.

    `unseen` when nobody was shown it: the attempt does not count.
    """

    lane: int
    offset: int
    at_ms: int
    visible_ms: int
    unseen: bool = False


class Died(_Event, frozen=True, tag="died"):
    """These left the queue without being settled: moved to the dead letters in the same step, or dropped."""

    lane: int
    offsets: list[int]
    reason: str


class Withdrawn(_Event, frozen=True, tag="withdrawn"):
    """These left by an operator's hand, and what took their place stands in the same step: edited, or moved."""

    lane: int
    offsets: list[int]


class Purged(_Event, frozen=True, tag="purged"):
    """Everything below these offsets (lane, offset) is gone; so much is left in the queue."""

    positions: list[tuple[int, int]]
    at_ms: int
    messages: int = 0
    bytes: int = 0


class Rewound(_Event, frozen=True, tag="rewound"):
    """The scan of a lane goes back: everything from this offset on is given out again. So much is in the queue now."""

    lane: int
    offset: int
    messages: int
    bytes: int


class Switched(_Event, frozen=True, tag="switched"):
    """The queue was paused or resumed."""

    paused: bool


class Recounted(_Event, frozen=True, tag="recounted"):
    """So much is in the queue: retention or an aborted transaction took some of it without asking the cursor."""

    messages: int
    bytes: int


class Marked(_Event, frozen=True, tag="marked"):
    """Groups may go to other lanes from here on: what stands below these ends (lane, offset) goes out before anything
    of its group that stands above them elsewhere, and has sequence numbers below `base`. So many of the oldest marks
    are not needed any more.
    """

    ends: list[tuple[int, int]]
    base: int = 0
    forget: int = 0


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
)

encoder = msgspec.msgpack.Encoder()
decoder: msgspec.msgpack.Decoder[QueueEvent] = msgspec.msgpack.Decoder(QueueEvent)

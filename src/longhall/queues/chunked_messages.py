"""Complete large messages: the chunks of each, and the records that refer to it.

A large message is represented in a lane by a record with an unguessable name; this module maps the name to the chunks.
A move (to the dead letters, out of staging, a redrive) adds a reference from the new record, in one entry with it. The
chunk collector of the broker frees the chunks when no queue needs any of the records.

    a message is      from          to             by
    complete          WholeMade     for ever       one entry with its first record and the end of its upload
    referred to again WholeHeld                    one entry with the other record
    gone              WholeFreed    for ever       one entry with the end of the log of its chunks

A record with a name that is unknown here, or at another position, is not delivered.
"""

from __future__ import annotations

from typing import Any, Final, final

from longhall.errors import Code
from longhall.queues.auxiliary_events import WholeEvent, WholeHeld, WholeMade
from longhall.queues.chunks import ChunkManifest
from longhall.queues.runs import runs_of

CHUNKED_MESSAGES_MAX: Final = 10_000  # In one shard; each has a log of its own.
PLACES_MAX: Final = 64  # Records of one message; the oldest reference is dropped.

Place = tuple[int, int]  # Lane and offset of a record.


@final
class ChunkedMessage:
    """The chunks of one large message, in runs of the log `parts`, and the positions of its records."""

    def __init__(self, parts: int, runs: tuple[int, ...], size_bytes: int, first: Place) -> None:
        self.parts = parts
        self.runs = runs
        self.size_bytes = size_bytes
        self.first = first  # Its first record, from which its id is derived.
        self.places: dict[Place, None] = {first: None}

    @property
    def count(self) -> int:
        """The number of chunks."""
        return sum(self.runs[1::2])

    def offset_of(self, number: int) -> int:
        """The offset of a chunk in the log `parts`; -1 if there is no such chunk."""
        for at in range(0, len(self.runs), 2):
            if 0 <= number < self.runs[at + 1]:
                return self.runs[at] + number
            number -= self.runs[at + 1]
        return -1


@final
class ChunkedMessages:
    """All complete large messages of one shard, by name and by the position of their records."""

    def __init__(self, messages_max: int = CHUNKED_MESSAGES_MAX) -> None:
        self._messages_max = messages_max
        self._by_name: dict[str, ChunkedMessage] = {}
        self._by_place: dict[Place, ChunkedMessage] = {}
        self._in_lane: dict[int, int] = {}  # The number of records by lane.

    def __len__(self) -> int:
        return len(self._by_name)

    def get(self, whole: str) -> ChunkedMessage | None:
        """The message of this name."""
        return self._by_name.get(whole)

    def at(self, place: Place) -> ChunkedMessage | None:
        """The message of the record at this position."""
        return self._by_place.get(place)

    def has_lane(self, lane: int) -> bool:
        """True if records of this lane have large messages."""
        return lane in self._in_lane

    def items(self) -> list[tuple[str, ChunkedMessage]]:
        """All messages with their names."""
        return list(self._by_name.items())

    @property
    def is_full(self) -> bool:
        """True if no further upload may begin."""
        return len(self._by_name) >= self._messages_max

    def decide_make(self, whole: str, manifest: ChunkManifest, place: Place) -> WholeMade:
        """Make the chunks a message with the record at `place`."""
        return WholeMade(
            whole=whole,
            parts=manifest.lane,
            runs=runs_of(manifest.offsets),
            size_bytes=manifest.size_bytes,
            lane=place[0],
            offset=place[1],
        )

    def decide_hold(self, whole: str, place: Place) -> WholeHeld | Code:
        """Add the record at `place` to the message."""
        if whole not in self._by_name:
            return Code.INVALID_REQUEST
        return WholeHeld(whole=whole, lane=place[0], offset=place[1])

    def apply(self, event: WholeEvent) -> None:
        """Apply an event: the only way in which the messages change."""
        if isinstance(event, WholeMade):
            first = (event.lane, event.offset)
            made = ChunkedMessage(event.parts, event.runs, event.size_bytes, first)
            self._by_name[event.whole] = made
            self._add_place(first, made)
        elif isinstance(event, WholeHeld):
            whole = self._by_name.get(event.whole)
            if whole is not None:
                self._hold(whole, (event.lane, event.offset))
        else:
            gone = self._by_name.pop(event.whole, None)
            for place in gone.places if gone is not None else ():
                self._drop_place(place)

    def _hold(self, whole: ChunkedMessage, place: Place) -> None:
        whole.places[place] = None
        self._add_place(place, whole)
        if len(whole.places) > PLACES_MAX:
            oldest = next(iter(whole.places))
            del whole.places[oldest]
            self._drop_place(oldest)

    def _add_place(self, place: Place, whole: ChunkedMessage) -> None:
        if place not in self._by_place:
            self._in_lane[place[0]] = self._in_lane.get(place[0], 0) + 1
        self._by_place[place] = whole

    def _drop_place(self, place: Place) -> None:
        del self._by_place[place]
        left = self._in_lane[place[0]] - 1
        if left:
            self._in_lane[place[0]] = left
        else:
            del self._in_lane[place[0]]

    def snapshot(self) -> list[Any]:
        """Builtins only, for `restore`."""
        return [
            [name, one.parts, list(one.runs), one.size_bytes, list(one.first), [list(place) for place in one.places]]
            for name, one in self._by_name.items()
        ]

    def restore(self, state: list[Any]) -> None:
        """Take the state of a `snapshot`."""
        self._by_name = {}
        self._by_place = {}
        self._in_lane = {}
        for name, parts, runs, size_bytes, first, places in state:
            one = ChunkedMessage(int(parts), tuple(runs), int(size_bytes), (int(first[0]), int(first[1])))
            one.places = {}
            self._by_name[name] = one
            for lane, offset in places:
                self._hold(one, (int(lane), int(offset)))

"""Large messages that are whole: which chunks each is made of, and which records stand for it.

A record in a lane stands for a message that is too large for it: it names the message by an id that nobody can guess,
and everything else about the chunks is known here. A move (to the dead letters, out of the staging, back to work) adds
the record at the new place, in one entry with it; the old one drops out when its queue is done with it. Chunks are
freed when no record that stands for them is wanted any more, and who knows that is somebody else.

    a message is      from          to             by
    whole             WholeMade     for ever       one entry with its first record and the end of its upload
    held once more    WholeHeld                    one entry with the other record
    gone              WholeFreed    for ever       one entry with the end of the log of its chunks

A record that names a message without being known here stands for nothing: nothing is given out on its word.
"""

from __future__ import annotations

from typing import Any, Final, final

from longhall.errors import Code
from longhall.queues.auxiliary_events import WholeEvent, WholeHeld, WholeMade
from longhall.queues.chunks import ChunkManifest

CHUNKED_MESSAGES_MAX: Final = 10_000  # Of one shard; each has a log of its own.
PLACES_MAX: Final = 64  # Records that stand for one message; beyond, the oldest is long done with.

Place = tuple[int, int]  # Lane and offset of a record.


@final
class ChunkedMessage:
    """One large message."""

    def __init__(self, parts: int, runs: tuple[int, ...], size_bytes: int, first: Place) -> None:
        self.parts = parts
        self.runs = runs
        self.size_bytes = size_bytes
        self.first = first  # Its first place, which its id was made from.
        self.places: dict[Place, None] = {first: None}

    @property
    def count(self) -> int:
        """How many chunks it has."""
        return sum(self.runs[1::2])

    def offset_of(self, number: int) -> int:
        """Where a chunk stands in the log `parts`; -1 if there is none of this number."""
        for at in range(0, len(self.runs), 2):
            if 0 <= number < self.runs[at + 1]:
                return self.runs[at] + number
            number -= self.runs[at + 1]
        return -1


@final
class ChunkedMessages:
    """All large messages of one shard."""

    def __init__(self, wholes_max: int = CHUNKED_MESSAGES_MAX) -> None:
        self._wholes_max = wholes_max
        self._wholes: dict[str, ChunkedMessage] = {}
        self._by_place: dict[Place, ChunkedMessage] = {}

    def __len__(self) -> int:
        return len(self._wholes)

    def get(self, whole: str) -> ChunkedMessage | None:
        """The message of this id."""
        return self._wholes.get(whole)

    def at(self, place: Place) -> ChunkedMessage | None:
        """The message that the record at this place stands for."""
        return self._by_place.get(place)

    def items(self) -> list[tuple[str, ChunkedMessage]]:
        """All of them."""
        return list(self._wholes.items())

    @property
    def is_full(self) -> bool:
        """Whether no further one may be begun."""
        return len(self._wholes) >= self._wholes_max

    def decide_make(self, whole: str, manifest: ChunkManifest, place: Place) -> WholeMade:
        """The chunks are a message from now on, and the record at `place` stands for it."""
        return WholeMade(
            whole=whole,
            parts=manifest.lane,
            runs=_runs(manifest.offsets),
            size_bytes=manifest.size_bytes,
            lane=place[0],
            offset=place[1],
        )

    def decide_hold(self, whole: str, place: Place) -> WholeHeld | Code:
        """The record at `place` stands for it as well."""
        if whole not in self._wholes:
            return Code.INVALID_REQUEST
        return WholeHeld(whole=whole, lane=place[0], offset=place[1])

    def apply(self, event: WholeEvent) -> None:
        """Alone changes what is kept."""
        if isinstance(event, WholeMade):
            first = (event.lane, event.offset)
            self._wholes[event.whole] = self._by_place[first] = ChunkedMessage(
                event.parts, event.runs, event.size_bytes, first
            )
        elif isinstance(event, WholeHeld):
            whole = self._wholes.get(event.whole)
            if whole is not None:
                self._hold(whole, (event.lane, event.offset))
        else:
            gone = self._wholes.pop(event.whole, None)
            for place in gone.places if gone is not None else ():
                del self._by_place[place]

    def _hold(self, whole: ChunkedMessage, place: Place) -> None:
        whole.places[place] = None
        self._by_place[place] = whole
        if len(whole.places) > PLACES_MAX:
            oldest = next(iter(whole.places))
            del whole.places[oldest], self._by_place[oldest]

    def snapshot(self) -> list[Any]:
        """Builtins only; `restore` takes it back."""
        return [
            [name, one.parts, list(one.runs), one.size_bytes, list(one.first), [list(place) for place in one.places]]
            for name, one in self._wholes.items()
        ]

    def restore(self, state: list[Any]) -> None:
        """Become what `snapshot` described."""
        self._wholes = {}
        self._by_place = {}
        for name, parts, runs, size_bytes, first, places in state:
            one = ChunkedMessage(int(parts), tuple(runs), int(size_bytes), (int(first[0]), int(first[1])))
            one.places = {}
            self._wholes[name] = one
            for lane, offset in places:
                self._hold(one, (int(lane), int(offset)))


def _runs(offsets: list[int]) -> tuple[int, ...]:
    """First offset and count of each unbroken run, flat, in the order of the chunks."""
    runs: list[int] = []
    for offset in offsets:
        if runs and runs[-2] + runs[-1] == offset:
            runs[-1] += 1
        else:
            runs.append(offset)
            runs.append(1)
    return tuple(runs)

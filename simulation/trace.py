"""The trace of a simulation: one hash of all events, and the last events as text.

Every event of the world is noted: writes, syncs, deliveries, crashes. Two runs of one seed have equal hashes unless
something came from outside the simulation: real time, other randomness, a thread, or the order of a set.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable
from typing import Final, final

TAIL_LINES: Final = 400


@final
class Trace:
    """A running hash of all events, and the last TAIL_LINES of them."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._hash = hashlib.blake2b(digest_size=16)
        self._tail: deque[str] = deque(maxlen=TAIL_LINES)
        self.events = 0

    def note(self, *words: object) -> None:
        line = f"{self._now():.9f} {' '.join(map(str, words))}"
        self._hash.update(line.encode())
        self._tail.append(line)
        self.events += 1

    def digest(self) -> str:
        return self._hash.hexdigest()

    def tail(self, lines: int = TAIL_LINES) -> str:
        return "\n".join(list(self._tail)[-lines:])

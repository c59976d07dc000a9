"""What is appended and waits for its commit, counted in bytes, with a bound.

A leader acknowledges some writes before they are committed (`acks=1`, `acknowledge: one`). While the commit stalls,
such writes would pile up without end: in the log, in the tables of who waits, and in the memory of every follower,
which keeps an entry until it is committed. The backlog counts them; whoever takes messages asks it first.

    weight < weight_max                   everything is taken
    weight >= weight_max                  no message is taken, until the weight has fallen to RESUME_SHARE of the bound
    weight >= weight_max + the reserve    nothing is taken, settles and commits of offsets included

The weight of an entry is its size and ENTRY_BYTES for what is kept beside it. This module does not know who waits.
"""

from __future__ import annotations

from typing import Final, final

ENTRY_BYTES: Final = 256  # Beside each entry: a place in two queues of the leader, an object and a place at a follower.
RESUME_SHARE: Final = 0.75
RESERVE_SHARE: Final = 8  # This part of the bound comes on top, for what is not a message.


@final
class Backlog:
    """See the module."""

    def __init__(self, weight_max: int) -> None:
        self.weight_max = weight_max
        self.weight = 0
        self.size_bytes = 0
        self.entries = 0
        self.is_full = False  # No message is taken.
        self.is_exhausted = False  # Nothing is.
        self.refusals = 0  # Messages that were not taken because of it.
        self._resume_at = int(weight_max * RESUME_SHARE)
        self._exhausted_at = weight_max + weight_max // RESERVE_SHARE

    def add(self, size_bytes: int, entries: int) -> None:
        """Entries of so many bytes were appended."""
        self.size_bytes += size_bytes
        self.entries += entries
        self.weight += size_bytes + entries * ENTRY_BYTES
        if self.weight >= self.weight_max:
            self.is_full = True
            self.is_exhausted = self.weight >= self._exhausted_at

    def commit(self, size_bytes: int, entries: int) -> None:
        """They are committed."""
        self.size_bytes -= size_bytes
        self.entries -= entries
        self.weight -= size_bytes + entries * ENTRY_BYTES
        if self.is_full:
            self.is_exhausted = self.weight >= self._exhausted_at
            if self.weight <= self._resume_at:
                self.is_full = False

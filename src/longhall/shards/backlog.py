"""The bytes of entries that are appended and not committed, with a bound.

A leader acknowledges some writes before they are committed (`acks=1`, `acknowledge: one`). While the commit stalls,
such writes would accumulate without bound: in the log, in the tables of waiting requests, and in the memory of every
follower, which holds an entry until it is committed. The backlog counts them; a send checks it first.

    weight < weight_max                   everything is accepted
    weight >= weight_max                  messages are refused until the weight has fallen to RESUME_SHARE of the bound
    weight >= weight_max + the reserve    everything is refused, settles and commits of offsets included

The weight of an entry is its size plus ENTRY_BYTES for its bookkeeping. This module does not know who waits.
"""

from __future__ import annotations

from typing import Final, final

# Bookkeeping of an entry: elements in two queues of the leader, an object and an element at a follower.
ENTRY_BYTES: Final = 256
RESUME_SHARE: Final = 0.75
RESERVE_SHARE: Final = 8  # This fraction of the bound is added for entries other than messages.


@final
class Backlog:
    """The weight of uncommitted entries, with hysteresis: messages are accepted again only well below the bound."""

    def __init__(self, weight_max: int) -> None:
        self.weight_max = weight_max
        self.weight = 0
        self.size_bytes = 0
        self.entries = 0
        self.is_full = False  # Messages are refused.
        self.is_exhausted = False  # Everything is refused.
        self.refusals = 0  # Messages refused because of the backlog.
        self._resume_at = int(weight_max * RESUME_SHARE)
        self._exhausted_at = weight_max + weight_max // RESERVE_SHARE

    def add(self, size_bytes: int, entries: int) -> None:
        """Add appended entries."""
        self.size_bytes += size_bytes
        self.entries += entries
        self.weight += size_bytes + entries * ENTRY_BYTES
        if self.weight >= self.weight_max:
            self.is_full = True
            self.is_exhausted = self.weight >= self._exhausted_at

    def commit(self, size_bytes: int, entries: int) -> None:
        """Remove committed entries."""
        self.size_bytes -= size_bytes
        self.entries -= entries
        self.weight -= size_bytes + entries * ENTRY_BYTES
        if self.is_full:
            self.is_exhausted = self.weight >= self._exhausted_at
            if self.weight <= self._resume_at:
                self.is_full = False

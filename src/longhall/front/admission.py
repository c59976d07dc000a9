"""Admission by bytes: one budget a process for everything that clients have sent and we have not answered.

A connection whose bytes do not fit stops reading; the bytes then wait in the sender's socket, where they belong. Small
requests pass even when the budget is spent, so heartbeats, commits and consumers stay alive while producers wait.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, final

SMALL_BYTES_MAX: Final = 4096
RESUME_SHARE: Final = 0.75  # Reading goes on when the budget is used to less than this.


@final
class Budget:
    """See the module."""

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.used_bytes = 0
        self.refusals = 0
        self._resume_below = int(bytes_max * RESUME_SHARE)
        self._waiting: dict[int, Callable[[], None]] = {}

    def take(self, size_bytes: int) -> bool:
        """Whether so many bytes may be held now. The first request is always let in, whatever its size."""
        if size_bytes > SMALL_BYTES_MAX and self.used_bytes and self.used_bytes + size_bytes > self.bytes_max:
            self.refusals += 1
            return False
        self.used_bytes += size_bytes
        return True

    def give(self, size_bytes: int) -> None:
        """They are not held any more."""
        self.used_bytes -= size_bytes
        if self._waiting and self.used_bytes <= self._resume_below:
            waiting, self._waiting = self._waiting, {}
            for resume in waiting.values():
                resume()

    def wait(self, key: int, resume: Callable[[], None]) -> None:
        """Call `resume` once when there is room again."""
        self._waiting[key] = resume

    def forget(self, key: int) -> None:
        """It does not wait any more."""
        self._waiting.pop(key, None)

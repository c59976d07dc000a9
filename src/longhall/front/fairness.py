"""Fair shares: a queue that is sent to by many, or very fast, must not hold up the others.

What was appended and waits for its commit is held by its lane: the topic or queue that it went to. Everything is
committed in one order, so whoever holds most of what waits has most of the throughput, and all the others wait for it.
While several lanes are busy and a good deal is held, a lane with its share or more gets nothing added: connections
whose last request went to it are not read until it holds less. One lane alone may hold as much as the budget allows.

    held by all lanes < WINDOW_BYTES            everybody goes on
    held by a lane < WINDOW_BYTES / busy lanes  it goes on
    otherwise                                   its connections wait, and go on one after another
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, final

WINDOW_BYTES: Final = 16 * 1024 * 1024  # More than the commits of two rounds, so that nothing ever waits for nothing.
SHARE_BYTES_MIN: Final = 256 * 1024
BUSY_S: Final = 1.0  # A lane is busy while it holds something, and for so long afterwards.

Resume = Callable[[], None]


@final
class Lane:
    """One queue or topic that is being sent to."""

    __slots__ = ("held_bytes", "seen_s", "waiting")

    def __init__(self) -> None:
        self.held_bytes = 0
        self.seen_s = 0.0
        self.waiting: dict[int, Resume] = {}  # Connections by their id, in the order they came.


@final
class Fairness:
    """See the module. Times are the loop's."""

    def __init__(self) -> None:
        self.later: Callable[[Resume], object] = _at_once  # How connections are resumed: not amid a commit.
        self.held_bytes = 0
        self.waits = 0  # How often a connection had to wait.
        self._lanes: dict[str, Lane] = {}
        self._crowded: dict[str, Lane] = {}  # Those that connections wait for.
        self._swept_s = 0.0
        self._resuming = False

    @property
    def lanes(self) -> int:
        """How many are busy."""
        return len(self._lanes)

    def hold(self, name: str, size_bytes: int, now_s: float) -> Lane:
        """So many bytes were appended for this lane. Give them back with `release`."""
        if now_s - self._swept_s >= BUSY_S:
            self._sweep(now_s)
        lane = self._lanes.get(name)
        if lane is None:
            lane = self._lanes[name] = Lane()
        lane.seen_s = now_s
        lane.held_bytes += size_bytes
        self.held_bytes += size_bytes
        return lane

    def release(self, lane: Lane, size_bytes: int) -> None:
        """They are committed, or came to nothing."""
        lane.held_bytes -= size_bytes
        self.held_bytes -= size_bytes
        if self._crowded and not self._resuming:
            self._resuming = True
            self.later(self._resume)

    def is_crowded(self, lane: Lane) -> bool:
        """Whether nothing should be added to this lane now."""
        if self.held_bytes < WINDOW_BYTES or len(self._lanes) < 2:
            return False
        return lane.held_bytes >= max(WINDOW_BYTES // len(self._lanes), SHARE_BYTES_MIN)

    def wait(self, name: str, lane: Lane, key: int, resume: Resume) -> None:
        """Call `resume` once when the lane is not crowded any more."""
        self.waits += 1
        lane.waiting[key] = resume
        self._crowded[name] = lane

    def forget(self, key: int) -> None:
        """That connection waits no more."""
        for name in list(self._crowded):
            lane = self._crowded[name]
            lane.waiting.pop(key, None)
            if not lane.waiting:
                del self._crowded[name]

    def _resume(self) -> None:
        """One connection of each lane that has room, and again while there is some."""
        try:
            again = True
            while again:
                again = False
                for name in list(self._crowded):
                    lane = self._crowded[name]
                    if self.is_crowded(lane):
                        continue
                    key = next(iter(lane.waiting))
                    resume = lane.waiting.pop(key)
                    if not lane.waiting:
                        del self._crowded[name]
                    resume()
                    again = True
        finally:
            self._resuming = False

    def _sweep(self, now_s: float) -> None:
        """Forget lanes that nobody sends to."""
        self._swept_s = now_s
        for name in [
            name for name, lane in self._lanes.items() if not lane.held_bytes and lane.seen_s < now_s - BUSY_S
        ]:
            del self._lanes[name]


def _at_once(resume: Resume) -> None:
    resume()

"""Recently written ranges of files, so that older ones can be dropped from the page cache.

Readers near the end of a log find their bytes in the page cache, and the cache does not grow with every byte written. A
reused page is many times cheaper than a new one, and the memory of a node stays bounded. Older bytes that a reader
brings back into memory are left to the kernel.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import Final, final

STEP_BYTES: Final = 256 * 1024  # Dropped at once: fewer calls, and few pages split.
GROWING_MAX: Final = 4096  # Files whose last range is tracked. Forgotten ranges are left to the kernel.
PAGE_BYTES: Final = 4096

Range = tuple[str, int, int]  # Path, first byte, byte after the last.


@final
class RecentWrites:
    """Ranges of files in the order in which they were filled, `bytes_max` in total; 0 tracks nothing."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._bytes = 0
        # First byte and the one after the last, by path.
        self._growing: OrderedDict[str, tuple[int, int]] = OrderedDict()
        self._filled: deque[Range] = deque()

    def wrote(self, path: str, position: int, size: int) -> Range | None:
        """Note a write. Returns a range that is no longer recent, if there is one."""
        if self._bytes_max == 0 or size <= 0:
            return None
        first, behind = self._growing.get(path, (position, position))
        if behind != position:
            first = position
        behind = position + size
        if behind - first < STEP_BYTES:
            self._growing[path] = (first, behind)
            if len(self._growing) > GROWING_MAX:
                self._growing.popitem(last=False)
            return None
        # The page in which it ends belongs to the next range.
        self._growing[path] = (behind - behind % PAGE_BYTES, behind)
        self._filled.append((path, first, behind))
        self._bytes += behind - first
        if self._bytes <= self._bytes_max:
            return None
        oldest = self._filled.popleft()
        self._bytes -= oldest[2] - oldest[1]
        return oldest

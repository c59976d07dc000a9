"""What was written lately stays in memory; what is older gives its memory back.

Readers near the end of a log find their bytes in the page cache, and the cache does not grow with every byte that was
ever written. A page that was used before is many times cheaper than one that the machine never touched, and a node
stays as small as it is. Whoever reads older bytes brings them back, and those are left to the system.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import Final, final

STEP_BYTES: Final = 256 * 1024  # Given back at once: fewer calls, and few pages cut in two.
GROWING_MAX: Final = 4096  # Files whose last stretch is remembered. What is forgotten is left to the system.
PAGE_BYTES: Final = 4096

Stretch = tuple[str, int, int]  # Path, first byte, byte behind the last.


@final
class Recent:
    """Stretches of files in the order in which they were filled, of `bytes_max` in all; 0 remembers nothing."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._bytes = 0
        self._growing: OrderedDict[str, tuple[int, int]] = OrderedDict()  # First byte and the one behind, by path.
        self._filled: deque[Stretch] = deque()

    def wrote(self, path: str, position: int, size: int) -> Stretch | None:
        """Note a write. Returns a stretch that is not recent any more, if there is one."""
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
        # The page that it ends in goes with the next stretch.
        self._growing[path] = (behind - behind % PAGE_BYTES, behind)
        self._filled.append((path, first, behind))
        self._bytes += behind - first
        if self._bytes <= self._bytes_max:
            return None
        oldest = self._filled.popleft()
        self._bytes -= oldest[2] - oldest[1]
        return oldest

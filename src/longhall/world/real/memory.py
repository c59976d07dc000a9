"""Memory that is used again instead of being given back.

The C library returns large freed blocks to the kernel at once, and every fetch and large request then pays for fresh
pages: a fifth of the time of the node was spent in page faults. Told to keep what it had, it does not grow by it, since
all buffers are bounded anyway. Where the C library is another one, nothing happens.
"""

from __future__ import annotations

import ctypes
from typing import Final

_TRIM_THRESHOLD: Final = -1
_TOP_PAD: Final = -2
_MMAP_THRESHOLD: Final = -3

KEPT_BYTES_MAX: Final = 64 * 1024 * 1024  # Free memory at the top beyond this goes back.
MUCH_BYTES: Final = 8 * 1024 * 1024  # After a job with so much to carry, what it took is given back.
BLOCK_BYTES_MAX: Final = 32 * 1024 * 1024  # Larger ones are mapped for themselves; the library's own maximum.


def keep_memory() -> None:
    """Call once, early."""
    library = ctypes.CDLL(None)
    mallopt = getattr(library, "mallopt", None)
    if mallopt is not None:
        mallopt(_MMAP_THRESHOLD, BLOCK_BYTES_MAX)
        mallopt(_TRIM_THRESHOLD, KEPT_BYTES_MAX)
        mallopt(_TOP_PAD, 1024 * 1024)


def give_back_memory() -> None:
    """Let go of all that is free, after something that took very much for a moment."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)

"""Settings of the C library's allocator: freed memory is reused and not returned to the kernel.

By default the C library returns large freed blocks at once, and every fetch and large request pays for new pages: a
fifth of the node's time was spent in page faults. Retaining freed blocks does not make the node grow, since all buffers
are bounded. With another C library nothing happens.
"""

from __future__ import annotations

import ctypes
from typing import Final

_TRIM_THRESHOLD: Final = -1
_TOP_PAD: Final = -2
_MMAP_THRESHOLD: Final = -3

KEPT_BYTES_MAX: Final = 64 * 1024 * 1024  # Free memory at the top beyond this is returned.
MUCH_BYTES: Final = 8 * 1024 * 1024  # After a job of this size, its memory is returned.
BLOCK_BYTES_MAX: Final = 32 * 1024 * 1024  # Larger blocks are mapped separately; the library's own maximum.


def keep_memory() -> None:
    """Configure the allocator. Call it once, early."""
    library = ctypes.CDLL(None)
    mallopt = getattr(library, "mallopt", None)
    if mallopt is not None:
        mallopt(_MMAP_THRESHOLD, BLOCK_BYTES_MAX)
        mallopt(_TRIM_THRESHOLD, KEPT_BYTES_MAX)
        mallopt(_TOP_PAD, 1024 * 1024)


def give_back_memory() -> None:
    """Return all free memory to the kernel, after a job that took very much."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)

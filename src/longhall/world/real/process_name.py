"""The name of a process, as `ps -o comm` and `top` show it."""

from __future__ import annotations

import ctypes
import sys
from typing import Final

NAME_BYTES_MAX: Final = 15
_PR_SET_NAME: Final = 15


def name_process(name: str) -> None:
    """Give this process another name. The system cuts it to 15 bytes; elsewhere than on Linux nothing happens."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_NAME, name.encode(), 0, 0, 0)

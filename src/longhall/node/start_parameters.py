"""Start parameters of a child process: one line of JSON that its parent writes to its standard input."""

from __future__ import annotations

import os
import sys
from typing import Final, TypeVar

import msgspec

PARAMETERS_BYTES_MAX: Final = 1024 * 1024

_T = TypeVar("_T")


def read_start_parameters(kind: type[_T], started_by: str) -> _T:
    """The first line of standard input. Ends the process if there is none: then no parent has started it."""
    line = b""
    while not line.endswith(b"\n"):
        piece = os.read(sys.stdin.fileno(), 65_536)
        if not piece or len(line) > PARAMETERS_BYTES_MAX:
            raise SystemExit(f"longhall: this process is started by {started_by}, not by hand")
        line += piece
    return msgspec.json.decode(line, type=kind)

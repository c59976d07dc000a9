"""Loaded by every Python process that `./dev walk` starts: records which functions of Longhall are called, and when.

SIGUSR1 starts the recording. SIGUSR2 ends it and writes the calls to LONGHALL_WALK_DIRECTORY/PID.json, as [time in ns
of the monotonic clock, file, function]. Only the main thread is recorded. The file PID.listens exists once a process
handles these signals.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from types import FrameType
from typing import Any

_SOURCE = os.environ.get("LONGHALL_WALK_SOURCE", "")
_DIRECTORY = os.environ.get("LONGHALL_WALK_DIRECTORY", "")
_calls: list[tuple[int, str, str]] = []


def _record(frame: FrameType, event: str, argument: Any) -> None:
    code = frame.f_code
    if event == "call" and code.co_filename.startswith(_SOURCE) and not code.co_name.startswith("<"):
        _calls.append((time.monotonic_ns(), code.co_filename[len(_SOURCE) :], code.co_qualname))


def _begin(number: int, frame: FrameType | None) -> None:
    _calls.clear()
    sys.setprofile(_record)


def _end(number: int, frame: FrameType | None) -> None:
    sys.setprofile(None)
    path = os.path.join(_DIRECTORY, f"{os.getpid()}.json")
    with open(f"{path}.new", "w") as file:
        json.dump({"command": sys.argv, "calls": _calls}, file)
    os.rename(f"{path}.new", path)


if _DIRECTORY:
    signal.signal(signal.SIGUSR1, _begin)
    signal.signal(signal.SIGUSR2, _end)
    with open(os.path.join(_DIRECTORY, f"{os.getpid()}.listens"), "w"):
        pass

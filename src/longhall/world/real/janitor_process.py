"""The program of the janitor: `python -m longhall.world.real.janitor_process SOCKET DIRECTORY JOBS`.

Receives [job, arguments] and answers {"outcome": ...}, both msgpack after a length of four little-endian bytes, until
the parent's end is closed. It runs with the lowest priority for processor and disk.
"""

from __future__ import annotations

import ctypes
import importlib
import os
import platform
import signal
import socket
import sys
import traceback
from collections.abc import Callable
from typing import Any, Final

import msgspec

from longhall.errors import LonghallError
from longhall.world.ports import Disk
from longhall.world.real.disk import RealDisk
from longhall.world.real.memory import MUCH_BYTES, give_back_memory

NICENESS: Final = 10
_IOPRIO_SET: Final = {"x86_64": 251, "aarch64": 30}
_IOPRIO_WHO_PROCESS: Final = 1
_IOPRIO_BEST_EFFORT_LAST: Final = (2 << 13) | 7

Job = Callable[[Disk, dict[str, object]], dict[str, object]]


def serve(source: socket.socket, disk: Disk, jobs: dict[str, Job]) -> None:
    """Run jobs until the other end is closed."""
    while True:
        size = int.from_bytes(_receive(source, 4), "little")
        _serve_one(source, size, disk, jobs)
        if size > MUCH_BYTES:
            give_back_memory()


def _serve_one(source: socket.socket, size: int, disk: Disk, jobs: dict[str, Job]) -> None:
    """Run one job, in a function so that a large request is freed before the next one."""
    job, arguments = msgspec.msgpack.decode(_receive(source, size), type=tuple[str, dict[str, object]])
    answer = msgspec.msgpack.encode(_run(disk, jobs, job, arguments))
    source.sendall(len(answer).to_bytes(4, "little") + answer)


def _run(disk: Disk, jobs: dict[str, Job], job: str, arguments: dict[str, object]) -> dict[str, Any]:
    try:
        return {"outcome": "done", "result": jobs[job](disk, arguments)}
    except OSError as error:
        return {
            "outcome": "os",
            "errno": error.errno or 5,
            "message": error.strerror or str(error),
            "path": error.filename,
        }
    except LonghallError as error:
        return {"outcome": "refused", "code": error.code.value, "message": str(error)}
    except Exception:
        return {"outcome": "bug", "message": traceback.format_exc()}


def _receive(source: socket.socket, size: int) -> bytearray:
    buffer = bytearray()
    while len(buffer) < size:
        part = source.recv(min(size - len(buffer), 1 << 20))
        if not part:
            sys.exit(0)
        buffer += part
    return buffer


def _lower_priority() -> None:
    os.nice(NICENESS)
    number = _IOPRIO_SET.get(platform.machine())
    if number is not None:  # Only a hint: if it is refused, the job runs all the same.
        ctypes.CDLL(None).syscall(number, _IOPRIO_WHO_PROCESS, 0, _IOPRIO_BEST_EFFORT_LAST)


def main() -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        # These signals are for the parent, which ends this process by closing the socket.
        signal.signal(number, signal.SIG_IGN)
    _lower_priority()
    descriptor, directory, jobs = sys.argv[1:4]
    with socket.socket(fileno=int(descriptor)) as source:
        try:
            serve(source, RealDisk(directory), importlib.import_module(jobs).BACKGROUND_JOBS)
        except (BrokenPipeError, ConnectionResetError):
            sys.exit(0)


if __name__ == "__main__":
    main()

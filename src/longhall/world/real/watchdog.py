"""The node's side of its watchdog: a heartbeat from the loop to a process that kills the node when it hangs.

A hung process keeps its connections open, so that its clients wait until their own time-outs. When it is killed, the
kernel resets them at once. The watchdog is in the process group of the node: a signal that stops the whole group
(Ctrl-Z, a frozen container) stops the watchdog too, and nothing is killed.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import subprocess
import sys
from typing import Final, final

from longhall.world.real import watchdog_process

BEATS: Final = 10  # Heartbeats within the longest allowed silence.

_log = logging.getLogger("longhall.watchdog")


@final
class Watchdog:
    """Watches the running loop from `start` to `stop`."""

    def __init__(self, hang_ms_max: int) -> None:
        self._hang_ms_max = hang_ms_max
        self._socket: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Start watching, after the long work of the start. If no process can be started, there is no watchdog."""
        ours, theirs = socket.socketpair()
        with theirs:
            command = [sys.executable, "-I", "-S", watchdog_process.__file__, str(os.getpid()), str(self._hang_ms_max)]
            try:
                self._process = subprocess.Popen(command, stdin=theirs.fileno(), stdout=subprocess.DEVNULL)
            except OSError as error:
                _log.warning("the node has no watchdog", extra={"reason": str(error)})
                ours.close()
                return
        ours.setblocking(False)
        self._socket = ours
        self._beat()

    def stop(self) -> None:
        """Stop watching: the loop need not run from now on."""
        if self._timer is not None:
            self._timer.cancel()
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        if self._process is not None:
            self._process.kill()  # SIGKILL also ends a stopped process.
            self._process.wait()
            self._process = None

    @property
    def pid(self) -> int | None:
        """The process id of the watchdog while it runs."""
        return self._process.pid if self._process is not None else None

    def _beat(self) -> None:
        assert self._socket is not None
        self._timer = asyncio.get_running_loop().call_later(self._hang_ms_max / 1000 / BEATS, self._beat)
        with contextlib.suppress(OSError):  # The watchdog is stopped and its socket is full, or it has ended.
            self._socket.send(b"+")

"""The node's end of its watchdog: a heartbeat from the loop to a process that ends the node when it hangs.

A hung process keeps its connections open, so that its clients wait for it until their own time-outs. Once it is ended,
the system resets them at once. The watchdog is in the process group of the node: whoever stops the whole group (Ctrl-Z,
a frozen container) stops the watchdog too, and nothing is ended.
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

BEATS: Final = 10  # Within the silence that is too long.

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
        """Begin, when the loop has no long work to do any more. A machine without another process goes without."""
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
        """The loop need not run from now on."""
        if self._timer is not None:
            self._timer.cancel()
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        if self._process is not None:
            self._process.kill()  # Also if somebody has stopped it.
            self._process.wait()
            self._process = None

    @property
    def pid(self) -> int | None:
        """The process that watches, while it does."""
        return self._process.pid if self._process is not None else None

    def _beat(self) -> None:
        assert self._socket is not None
        self._timer = asyncio.get_running_loop().call_later(self._hang_ms_max / 1000 / BEATS, self._beat)
        with contextlib.suppress(OSError):  # It is stopped, and has not read for long; or it is gone.
            self._socket.send(b"+")

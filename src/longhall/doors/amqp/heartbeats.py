"""The timer of one connection: the end of its handshake first, its heartbeats from then on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, final

SILENT_INTERVALS: Final = 2.5  # After so many intervals without a byte a client counts as gone.


@final
class Heartbeats:
    """The times of the last receive and send, and the heartbeats that are due after them."""

    def __init__(self, loop: asyncio.AbstractEventLoop, send: Callable[[], None], is_gone: Callable[[], bool]) -> None:
        """`is_gone` is asked about a silent client: True if the connection was closed."""
        self.received_s = 0.0
        self.sent_s = 0.0
        self._loop = loop
        self._send = send
        self._is_gone = is_gone
        self._timer: asyncio.TimerHandle | None = None

    def expect_handshake(self, seconds: float, over: Callable[[], None]) -> None:
        """Call `over` after this time, unless heartbeats have begun."""
        self._timer = self._loop.call_later(seconds, over)

    def begin(self, interval_s: int) -> None:
        """Send heartbeats and expect them; 0: neither."""
        self.cancel()
        if interval_s:
            self._timer = self._loop.call_later(interval_s / 2, self._beat, interval_s)

    def cancel(self) -> None:
        """Neither send nor expect anything."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _beat(self, interval_s: int) -> None:
        now_s = self._loop.time()
        if now_s - self.received_s > SILENT_INTERVALS * interval_s and self._is_gone():
            return
        if now_s - self.sent_s >= interval_s / 2:
            self._send()
        self._timer = self._loop.call_later(interval_s / 2, self._beat, interval_s)

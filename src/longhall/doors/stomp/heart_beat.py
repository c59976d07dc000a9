"""Heart-beats: a line feed when nothing else was sent for an interval, and the end of a client that is silent.

CONNECT    heart-beat:cx,cy    the client can send every cx ms, and wants something every cy ms; 0: not at all
CONNECTED  heart-beat:sx,sy    what the server does: both values in whole seconds, at least one
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, final

from longhall.doors.stomp.errors import invalid_header

INTERVAL_MS_MAX: Final = 24 * 3_600_000
SILENT_INTERVALS_MAX: Final = 2.5


def agreed(header: str) -> tuple[int, int]:
    """The intervals in which the server sends and expects something, in ms, from the header of CONNECT."""
    parts = header.split(",")
    if len(parts) != 2 or not all(part.strip().isascii() and part.strip().isdigit() for part in parts):
        raise invalid_header("heart-beat", header, "it must be two numbers of milliseconds")
    if any(len(part.strip()) > 12 for part in parts):
        raise invalid_header("heart-beat", header, "it is too long")
    client_sends_ms, client_wants_ms = (int(part) for part in parts)
    return _whole_seconds(client_wants_ms), _whole_seconds(client_sends_ms)


def _whole_seconds(interval_ms: int) -> int:
    return min(max(interval_ms // 1000, 1) * 1000, INTERVAL_MS_MAX) if interval_ms else 0


@final
class HeartBeats:
    """The heart-beats of one connection. Its owner notes what is sent and received."""

    def __init__(self, loop: asyncio.AbstractEventLoop, beat: Callable[[], None], lost: Callable[[], None]) -> None:
        """`beat` sends a heart-beat; `lost` is called when the client was silent for too long."""
        self.sent_s = self.received_s = loop.time()
        self.is_paused = False  # The connection is not read, so its silence means nothing.
        self._loop = loop
        self._beat = beat
        self._lost = lost
        self._send_s = 0.0
        self._receive_s = 0.0
        self._timers: list[asyncio.TimerHandle] = []

    def start(self, send_ms: int, receive_ms: int) -> None:
        """Begin with these intervals; 0: none."""
        self._send_s = send_ms / 1000
        self._receive_s = receive_ms / 1000
        self._timers = []
        if send_ms:
            self._timers.append(self._loop.call_later(self._send_s / 2, self._send))
        if receive_ms:
            self._timers.append(self._loop.call_later(self._receive_s, self._check))

    def stop(self) -> None:
        """End all timers."""
        for timer in self._timers:
            timer.cancel()
        self._send_s = self._receive_s = 0.0

    def _send(self) -> None:
        if not self._send_s:
            return
        if self._loop.time() - self.sent_s >= self._send_s / 2:
            self._beat()
        self._timers[0] = self._loop.call_later(self._send_s / 2, self._send)

    def _check(self) -> None:
        if not self._receive_s:
            return
        left_s = self.received_s + SILENT_INTERVALS_MAX * self._receive_s - self._loop.time()
        if left_s <= 0:
            if not self.is_paused:
                self._lost()
                return
            left_s = self._receive_s
        self._timers[-1] = self._loop.call_later(left_s, self._check)

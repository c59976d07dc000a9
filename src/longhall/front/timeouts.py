"""Timeouts of an HTTP connection: first request, rest of a request, unread answer, idle time."""

from __future__ import annotations

from typing import final

from longhall.front.http import HttpConnection


@final
class Timeouts:
    """The four timeouts, and `sweep_s`, the interval at which a server checks its connections against them."""

    def __init__(
        self,
        *,
        first_request_s: float = 10.0,
        request_s: float = 30.0,
        answer_s: float = 30.0,
        idle_s: float = 75.0,
        sweep_s: float = 1.0,
    ) -> None:
        self.sweep_s = sweep_s
        self._first_request_s = first_request_s
        self._request_s = request_s
        self._answer_s = answer_s
        self._idle_s = idle_s

    def is_over(self, connection: HttpConnection, now_s: float) -> bool:
        """True if a connection has exceeded a timeout."""
        arriving_s = connection.arriving_since_s
        if arriving_s and now_s - arriving_s > self._request_s and not connection.is_kept_waiting:
            return True
        if connection.stalled_since_s and now_s - connection.stalled_since_s > self._answer_s:
            return True
        if arriving_s:
            return False
        silent_s = now_s - connection.active_s
        if connection.requests == 0 and silent_s > self._first_request_s:
            return True
        return connection.idle and silent_s > self._idle_s

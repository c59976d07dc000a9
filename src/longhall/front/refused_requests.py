"""Requests that a door refuses: a log line for each kind, rate limited.

A client that repeats a wrong request must not fill the log: each pair of request and error has one line in `APART_S`
seconds, with the number since the line before it. At most `KINDS_MAX` pairs are remembered; further ones share a line.
"""

from __future__ import annotations

import logging
from typing import Final, final

APART_S: Final = 10.0
KINDS_MAX: Final = 200
REASON_CHARACTERS_MAX: Final = 200

_log = logging.getLogger("longhall.requests")
_OTHERS: Final = ("other", "other")


@final
class RefusedRequests:
    """The refused requests of one door. The time is an argument."""

    def __init__(self, door: str) -> None:
        self.door = door
        self._logged_s: dict[tuple[str, str], float] = {}
        self._since: dict[tuple[str, str], int] = {}

    def note(self, request: str, error: str, reason: str, now_s: float) -> None:
        """Count a refusal, and log it unless the same kind was logged a moment ago."""
        kind = (request, error)
        if kind not in self._logged_s and len(self._logged_s) >= KINDS_MAX:
            kind = _OTHERS
        count = self._since.get(kind, 0) + 1
        if now_s - self._logged_s.get(kind, -APART_S) < APART_S:
            self._since[kind] = count
            return
        self._logged_s[kind] = now_s
        self._since[kind] = 0
        _log.info(
            "a request was refused",
            extra={
                "door": self.door,
                "request": request,
                "error": error,
                "reason": reason[:REASON_CHARACTERS_MAX],
                "refused_since": count,
            },
        )

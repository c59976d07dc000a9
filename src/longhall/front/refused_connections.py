"""Connections over a limit of a door: a counter, and a log line that is rate limited."""

from __future__ import annotations

import logging
from typing import Final, final

APART_S: Final = 10.0  # Between two log lines of one door.

_log = logging.getLogger("longhall.connections")


@final
class RefusedConnections:
    """The refused connections of one door. A log line has the number refused since the line before it."""

    def __init__(self, door: str) -> None:
        self.door = door
        self.count = 0
        self._logged_s = -APART_S
        self._logged_count = 0

    def note(self, peer: str, setting: str, limit: int, now_s: float) -> None:
        """Count a connection from this address that was refused because of this setting."""
        self.count += 1
        if now_s - self._logged_s < APART_S:
            return
        _log.warning(
            "a connection was refused: its door has reached the limit of connections",
            extra={
                "door": self.door,
                "peer": peer,
                "bound": setting,
                "limit": limit,
                "refused_since": self.count - self._logged_count,
            },
        )
        self._logged_s = now_s
        self._logged_count = self.count

"""Connections that a door refused: counted, and said in the log, the first at once and the others together."""

from __future__ import annotations

import logging
from typing import Final, final

APART_S: Final = 10.0  # Between two lines of one door.

_log = logging.getLogger("longhall.connections")


@final
class RefusedConnections:
    """See the module."""

    def __init__(self, door: str) -> None:
        self.door = door
        self.count = 0
        self._said_s = -APART_S
        self._said_count = 0

    def note(self, peer: str, setting: str, limit: int, now_s: float) -> None:
        """One from this address was refused, because of this bound."""
        self.count += 1
        if now_s - self._said_s < APART_S:
            return
        _log.warning(
            "a connection was refused: there are as many as may be",
            extra={
                "door": self.door,
                "peer": peer,
                "bound": setting,
                "limit": limit,
                "refused_since": self.count - self._said_count,
            },
        )
        self._said_s = now_s
        self._said_count = self.count

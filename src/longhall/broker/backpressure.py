"""Says in the log when messages begin to be refused because too much waits, and when they are taken again.

Looked at once a second: a backlog that fills and drains faster is one stretch of back-pressure, not many. The refusing
itself is done where messages are appended: see `Hall.is_backed_up`.
"""

from __future__ import annotations

import logging
from typing import final

from longhall.broker.hall import Hall

_log = logging.getLogger("longhall.backpressure")


@final
class Backpressure:
    """See the module."""

    def __init__(self, hall: Hall) -> None:
        self._hall = hall
        self._refusals = 0
        self._is_on = False

    def look(self) -> None:
        """Log a change since the last look."""
        hall = self._hall
        backlog = hall.backlog
        is_on = hall.is_backed_up or backlog.refusals > self._refusals
        if is_on != self._is_on:
            self._is_on = is_on
            numbers = {"uncommitted_bytes": backlog.size_bytes, "log_bytes": hall.log_behind_bytes}
            if is_on:
                _log.warning("messages are refused for a while", extra={"reason": self._reason(), **numbers})
            else:
                refused = {"refused": backlog.refusals}
                _log.warning("messages are taken again", extra={**refused, **numbers})
        self._refusals = backlog.refusals

    def _reason(self) -> str:
        hall = self._hall
        if hall.log_behind_bytes < hall.options.wal_bytes_max:
            return "the followers in sync do not keep up, and what waits for its commit has reached its bound"
        if hall.pinned:
            return "a full sync keeps the log from being cut, and it has reached wal_bytes_max"
        return "no checkpoint could be taken, and the log has reached wal_bytes_max"

"""Logs the start and the end of back-pressure, when messages are refused because too much is uncommitted.

The state is checked once a second, so that a backlog that fills and drains faster is logged once. `Hall.is_backed_up`
decides the refusals themselves.
"""

from __future__ import annotations

import logging
from typing import final

from longhall.broker.hall import Hall

_log = logging.getLogger("longhall.backpressure")


@final
class Backpressure:
    """The last logged state of back-pressure of one hall."""

    def __init__(self, hall: Hall) -> None:
        self._hall = hall
        self._refusals = 0
        self._is_on = False

    def look(self) -> None:
        """Log a change since the last call."""
        hall = self._hall
        backlog = hall.backlog
        is_on = hall.is_backed_up or backlog.refusals > self._refusals
        if is_on != self._is_on:
            self._is_on = is_on
            numbers = {"uncommitted_bytes": backlog.size_bytes, "log_bytes": hall.log_behind_bytes}
            if is_on:
                _log.warning("back-pressure: messages are refused", extra={"reason": self._reason(), **numbers})
            else:
                refused = {"refused": backlog.refusals}
                _log.warning("back-pressure has ended: messages are accepted", extra={**refused, **numbers})
        self._refusals = backlog.refusals

    def _reason(self) -> str:
        hall = self._hall
        if hall.log_behind_bytes < hall.options.wal_bytes_max:
            return "the in-sync followers do not keep up, and the uncommitted bytes have reached their bound"
        if hall.pinned:
            return "a full sync pins the write-ahead log, which has reached wal_bytes_max"
        return "no checkpoint could be taken, and the write-ahead log has reached wal_bytes_max"

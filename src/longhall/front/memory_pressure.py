"""Logs the start and the end of memory pressure, when requests wait because the budget of their process is spent.

The state is checked once a second, so a budget that fills and drains faster is logged once. `Budget` decides what
waits and which connections are given up.
"""

from __future__ import annotations

import logging
from typing import final

from longhall.front.admission import Budget

_log = logging.getLogger("longhall.admission")


@final
class MemoryPressure:
    """The last logged state of one budget."""

    def __init__(self, budget: Budget, what: str) -> None:
        self._budget = budget
        self._what = what
        self._refusals = 0
        self._is_on = False

    def look(self) -> None:
        """Log a change since the last call."""
        budget = self._budget
        is_on = budget.refusals > self._refusals
        self._refusals = budget.refusals
        if is_on == self._is_on:
            return
        self._is_on = is_on
        numbers = {
            "budget": self._what,
            "bytes_max": budget.bytes_max,
            "used_bytes": budget.used_bytes,
            "waited": budget.refusals,
            "connections_given_up": budget.given_up,
        }
        if is_on:
            _log.warning(
                "requests wait: the memory of this process for requests is spent (memory_bytes)", extra=numbers
            )
        else:
            _log.warning("requests do not wait for memory any more", extra=numbers)

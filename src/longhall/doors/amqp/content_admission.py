"""The memory of message bodies that have arrived in part: it counts in the budget of the process as bytes come.

A connection whose bodies find no room is not read, or gives them up (`front.admission` has the rules). A whole message
counts again where it is published.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import final

from longhall.doors.amqp.channel import Content
from longhall.front.admission import Arrival, Budget


@final
class ContentAdmission:
    """The unfinished bodies of one connection."""

    def __init__(self, budget: Budget, resume: Callable[[], None], give_up: Callable[[], None]) -> None:
        """`resume` is called when there is room again, `give_up` when others need the memory; then call `leave`."""
        self._budget = budget
        self._arrival = Arrival(resume, give_up)

    def hold(self, content: Content, size_bytes: int) -> None:
        """More of a body has arrived."""
        content.held_bytes += size_bytes
        self._arrival.came_bytes += size_bytes
        self._budget.hold(self._arrival, size_bytes)

    def drop(self, content: Content) -> None:
        """A body is whole, or nobody wants it: give back the memory of its parts."""
        held_bytes = min(content.held_bytes, self._arrival.held_bytes)
        content.held_bytes = 0
        if held_bytes:
            self._budget.settle(self._arrival, held_bytes)
            self._budget.give(held_bytes)

    def must_wait(self) -> bool:
        """True if nothing may be read now; `resume` follows."""
        arrival = self._arrival
        if arrival.held_bytes and not arrival.is_waiting and not self._budget.has_room(arrival):
            self._budget.wait(arrival)  # May call `resume` before it returns.
        return arrival.is_waiting

    def leave(self) -> None:
        """Give back everything."""
        self._budget.leave(self._arrival)

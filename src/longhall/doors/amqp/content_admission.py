"""The memory of message bodies that have arrived in part: it counts in the budget of the process as bytes come. Before
the connection is open, frames that have arrived in part count in the budget of clients that have not authenticated;
later they do not count: a frame has a bound, and a client must not lose its connection because of one.

A connection whose bodies find no room is not read, or gives them up (`front.admission` has the rules). A whole message
counts again where it is published.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import final

from longhall.doors.amqp.channel import Content
from longhall.front.admission import SMALL_BYTES_MAX, Arrival, Budget


@final
class ContentAdmission:
    """The unfinished bodies of one connection."""

    def __init__(self, budget: Budget, resume: Callable[[], None], give_up: Callable[[], None]) -> None:
        """`resume` is called when there is room again, `give_up` when others need the memory; then call `leave`."""
        self._main = budget
        self._budget = budget.unauthenticated
        self._arrival = Arrival(resume, give_up)
        self._rest_bytes = 0

    def authenticate(self) -> None:
        """The client has logged in."""
        self._budget.leave(self._arrival)
        self._budget = self._main
        self._rest_bytes = 0

    @property
    def holds_rest(self) -> bool:
        """True if a frame that is not whole counts."""
        return self._rest_bytes > 0

    def hold_rest(self, size_bytes: int) -> None:
        """The frame that is not whole has so many bytes. A small one does not count."""
        if self._budget is self._main:
            return
        rest_bytes = size_bytes if size_bytes > SMALL_BYTES_MAX else 0
        more_bytes = rest_bytes - self._rest_bytes
        if more_bytes > 0:
            self._arrival.came_bytes += more_bytes
            self._budget.hold(self._arrival, more_bytes)
        elif more_bytes < 0:
            freed_bytes = min(-more_bytes, self._arrival.held_bytes)
            self._budget.settle(self._arrival, freed_bytes)
            self._budget.give(freed_bytes)
        self._rest_bytes = rest_bytes

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
        self._rest_bytes = 0

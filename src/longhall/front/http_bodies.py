"""Admission of the request bodies of one HTTP connection to the memory budget.

Bodies count as they arrive, whatever their heads announce. A body of up to SMALL_BYTES_MAX counts when its request is
whole and is always admitted. A larger one is part of the connection's `Arrival` from its first bytes on; the request
that it belongs to is served when the budget has room. Requests behind it wait in order.

Before the client has authenticated, a body that is not whole counts in the unauthenticated share. A whole request
moves to the main budget.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, final

from longhall.front.admission import SMALL_BYTES_MAX, Arrival, Budget
from longhall.front.calls import HttpCall

if TYPE_CHECKING:
    from longhall.front.http import HttpConnection


@final
class BodyAdmission:
    """The body that arrives now, the whole requests that wait, and the memory of both.

    Invariant: `waiting` has requests in their order, and none of them is in a slot. A waiting request with `held_bytes`
    has its memory and waits for a slot; the others, and the body that is not whole, are in `arrival`.
    """

    def __init__(self, connection: HttpConnection, budget: Budget) -> None:
        self.pieces: list[bytes] = []  # Of the body that is not whole yet.
        self.body_bytes = 0  # The sum of the pieces.
        self.held_bytes = 0  # How many of these count in the arrival.
        self.waiting: deque[HttpCall] = deque()
        self.is_out_of_memory = False  # The budget calls `resume_requests` when there is room.
        self.arrival: Arrival | None = None
        self.share = budget.unauthenticated  # Where the next arrival counts.
        self._pool = budget.unauthenticated  # Where the current arrival counts.
        self._budget = budget
        self._connection = connection

    def authenticate(self) -> None:
        """Count the bodies to come in the main budget."""
        self.share = self._budget

    def hold_body(self) -> None:
        """Count the bytes of the current body that came since the last call."""
        arrival = self.arrival
        if arrival is None:
            self._pool = self.share
            arrival = self.arrival = Arrival(self._connection.resume_requests, self._connection.give_up)
        size_bytes = self.body_bytes - self.held_bytes
        self.held_bytes = self.body_bytes
        arrival.came_bytes += size_bytes
        self._pool.hold(arrival, size_bytes)

    def admit(self, call: HttpCall) -> bool:
        """True if the budget has room for a whole request; its memory belongs to the call then."""
        size_bytes = len(call.body)
        arrival = self.arrival
        if arrival is None or size_bytes <= SMALL_BYTES_MAX:
            call.held_bytes = size_bytes
            return self._budget.take(size_bytes)  # A large body has an arrival, and a small one is always admitted.
        budget = self._budget
        if self._pool is not budget:
            held_bytes = arrival.held_bytes
            self._pool.leave(arrival)
            self._pool = budget
            budget.hold(arrival, held_bytes)
        if not budget.has_room(arrival):
            return False
        call.held_bytes = size_bytes
        budget.settle(arrival, size_bytes)
        if not arrival.held_bytes:  # Otherwise other bodies of this connection still wait.
            self.arrival = None
        return True

    def lacks_room(self) -> bool:
        """True if an arrival must wait for memory and does not wait yet."""
        return self.arrival is not None and not self.is_out_of_memory and not self._pool.has_room(self.arrival)

    def wait_for_room(self) -> None:
        """Pause reading until the budget has room, perhaps only for a moment."""
        arrival = self.arrival
        assert arrival is not None
        self.is_out_of_memory = True
        self._connection.regulate()
        self._pool.wait(arrival)

    def has_unadmitted(self) -> bool:
        """True if a whole request waits for memory."""
        return any(call.body and not call.held_bytes for call in self.waiting)

    def drop_arrival(self) -> None:
        """Discard the body that is not whole, and give back the memory of all bodies that are not admitted."""
        arrival, self.arrival = self.arrival, None
        self.is_out_of_memory = False
        self.held_bytes = 0
        self.pieces.clear()
        if arrival is not None:
            self._pool.leave(arrival)

    def drop_waiting(self) -> int:
        """Discard the waiting requests. Returns the memory that the caller has to give back for them."""
        held_bytes = sum(call.held_bytes for call in self.waiting)
        self.waiting.clear()
        return held_bytes

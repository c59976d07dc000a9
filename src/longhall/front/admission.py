"""Admission by bytes: one memory budget a process for everything that clients have sent and that is not answered.

Memory counts when bytes arrive, never when a head announces them. A connection without room stops reading; its bytes
then wait in the client's socket buffer. Small requests pass even when the budget is spent, so heartbeats, commits and
consumers stay alive while producers wait.

Connections that have not authenticated share a small budget of their own (`unauthenticated`), so they cannot take the
room of those that have.

Requests that have arrived in part hold memory and cannot be answered, so a budget that they alone have spent would
never be free again. These rules prevent that; the eldest is the arrival that began first:

    used < bytes_max                   every connection reads
    otherwise                          only the eldest reads, up to an eighth of the budget beyond bytes_max
    the eighth is spent too, by        the youngest waiting arrival is given up, and its client may retry, until the
    partial requests alone             eldest has room; where nothing else is held, the eldest may have any size
    an arrival waits                   each that does not wait and brings fewer than RATE_BYTES a second is given up
    used > five quarters of bytes_max  the youngest waiting arrival is given up: every connection has to read a little
                                       to know what is asked, and there may be many connections

Therefore the eldest is whole after a bounded time, or it is given up and another arrival is the eldest. Whole requests
give their memory back when they are answered; below the last bound no arrival is given up because of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, final

SMALL_BYTES_MAX: Final = 4096
RESUME_SHARE: Final = 0.75  # Reading resumes when less than this part of the budget is used.
ELDEST_SHARE: Final = 8  # The eldest arrival may exceed the budget by this part.
MOST_SHARE: Final = 4  # All arrivals together may exceed it by this part.
SHORT_READ_BYTES: Final = 16 * 1024  # One read while there is no room: enough for small requests.
WHOLE_SHARE: Final = 16  # Whole requests below this part are not worth a wait: a fetch may take minutes.
RATE_BYTES: Final = 64 * 1024
SLOW_CHECK_S: Final = 1.0


@final
class Arrival:
    """The memory of requests of one connection that have arrived, in part or whole, and are not admitted yet.

    The budget calls `resume` when there is room for more, and `give_up` to have the memory back: the owner must have
    released all of it when `give_up` returns.
    """

    __slots__ = ("came_bytes", "give_up", "held_bytes", "is_waiting", "resume", "seen_bytes")

    def __init__(self, resume: Callable[[], None], give_up: Callable[[], None]) -> None:
        self.resume = resume
        self.give_up = give_up
        self.held_bytes = 0
        self.is_waiting = False  # The budget has paused it; its client is not slow.
        self.came_bytes = 0  # All bytes so far, counted by the owner.
        self.seen_bytes = -1  # `came_bytes` at the last check for slow arrivals; -1 before the first.


@final
class Budget:
    """The memory of requests and answers in bytes, and the arrivals that wait for some of it.

    Invariant: `used_bytes` is the sum of what whole requests and answers hold and of `arriving_bytes`, which is the sum
    of `held_bytes` over all arrivals.
    """

    def __init__(self, bytes_max: int, unauthenticated_bytes_max: int = 0) -> None:
        self.bytes_max = bytes_max
        self.unauthenticated: Budget = Budget(unauthenticated_bytes_max) if unauthenticated_bytes_max else self
        self.used_bytes = 0
        self.arriving_bytes = 0  # The part of `used_bytes` in arrivals.
        self.refusals = 0
        self.given_up = 0
        self._resume_below = int(bytes_max * RESUME_SHARE)
        self._eldest_max = bytes_max + bytes_max // ELDEST_SHARE
        self._most = bytes_max + bytes_max // MOST_SHARE
        self._whole_min = bytes_max // WHOLE_SHARE
        self._arrivals: dict[Arrival, None] = {}  # The eldest first.
        self._waiting = 0
        self._resuming = False
        self._checked_s = 0.0

    @property
    def is_overdrawn(self) -> bool:
        """True if whole requests and answers alone exceed the budget: clients do not read their answers."""
        return self.used_bytes - self.arriving_bytes > self.bytes_max

    # Whole requests

    def take(self, size_bytes: int) -> bool:
        """True if a whole request of this size is admitted. The only request is always admitted, whatever its size."""
        if size_bytes > SMALL_BYTES_MAX and self.used_bytes and self.used_bytes + size_bytes > self.bytes_max:
            self.refusals += 1
            return False
        self.used_bytes += size_bytes
        return True

    def give(self, size_bytes: int) -> None:
        """Give back the memory of whole requests and answers."""
        self.used_bytes -= size_bytes
        if self._waiting:
            self._resume_waiting()

    # Requests that arrive

    def hold(self, arrival: Arrival, size_bytes: int) -> None:
        """Count more bytes of an arrival."""
        if arrival not in self._arrivals:
            self._arrivals[arrival] = None
            arrival.seen_bytes = -1
        arrival.held_bytes += size_bytes
        self.arriving_bytes += size_bytes
        self.used_bytes += size_bytes

    def has_room(self, arrival: Arrival) -> bool:
        """True if more of this arrival may be read, or its request served."""
        if self.used_bytes < self.bytes_max:
            return True
        for eldest in self._arrivals:
            if eldest is not arrival:
                return False
            return self.used_bytes < self._eldest_max or self.used_bytes - arrival.held_bytes <= self._whole_min
        return False

    def wait(self, arrival: Arrival) -> None:
        """Call `resume` once when there is room, perhaps before this returns."""
        self.refusals += 1
        if arrival not in self._arrivals:
            self._arrivals[arrival] = None
        if not arrival.is_waiting:
            arrival.is_waiting = True
            self._waiting += 1
        while self.used_bytes > self._most and self._give_up_youngest():
            pass
        self._resume_waiting()

    def settle(self, arrival: Arrival, size_bytes: int) -> None:
        """Turn bytes of an arrival into those of a whole request, which are given back with `give`."""
        arrival.held_bytes -= size_bytes
        self.arriving_bytes -= size_bytes
        if arrival.is_waiting:
            arrival.is_waiting = False
            self._waiting -= 1
        if not arrival.held_bytes:
            self._arrivals.pop(arrival, None)

    def leave(self, arrival: Arrival) -> None:
        """Give back all memory of an arrival."""
        held = arrival.held_bytes
        self.settle(arrival, held)
        if held or self._waiting:
            self.give(held)

    def drop_slow(self, now_s: float) -> None:
        """Give up arrivals that are slower than RATE_BYTES a second while others wait. Call it about once a second."""
        if now_s - self._checked_s < SLOW_CHECK_S:
            return
        least = int(RATE_BYTES * min(now_s - self._checked_s, 2 * SLOW_CHECK_S))
        self._checked_s = now_s
        slow: list[Arrival] = []
        for arrival in self._arrivals:
            if not arrival.is_waiting and arrival.seen_bytes >= 0 and arrival.came_bytes - arrival.seen_bytes < least:
                slow.append(arrival)
            arrival.seen_bytes = -1 if arrival.is_waiting else arrival.came_bytes
        for arrival in slow:
            if not self._waiting:
                return
            if arrival in self._arrivals and not arrival.is_waiting:
                self._give_up(arrival)

    def _give_up(self, arrival: Arrival) -> None:
        self.given_up += 1
        arrival.give_up()
        if arrival in self._arrivals:  # The owner did not release it.
            self.leave(arrival)

    def _resume_waiting(self) -> None:
        """Resume the waiting arrivals that have room, and make room for the eldest."""
        if self._resuming:
            return
        self._resuming = True
        try:
            if self.used_bytes <= self._resume_below:
                for arrival in [one for one in self._arrivals if one.is_waiting]:
                    if arrival.is_waiting and self.has_room(arrival):
                        self._resume(arrival)
            self._make_room_for_eldest()
        finally:
            self._resuming = False

    def _make_room_for_eldest(self) -> None:
        while self._waiting:
            eldest = next(iter(self._arrivals))
            if not eldest.is_waiting:
                return
            if self.has_room(eldest):
                self._resume(eldest)
                if not eldest.is_waiting:
                    return
            if self.used_bytes - self.arriving_bytes > self._whole_min:
                return  # Their answers will make room.
            if not self._give_up_youngest():
                return

    def _give_up_youngest(self) -> bool:
        """Give up the youngest waiting arrival, unless it is the eldest. False if there is none."""
        eldest = next(iter(self._arrivals))
        for arrival in reversed(list(self._arrivals)):
            if arrival.is_waiting:
                if arrival is eldest:
                    return False
                self._give_up(arrival)
                return True
        return False

    def _resume(self, arrival: Arrival) -> None:
        arrival.is_waiting = False
        self._waiting -= 1
        arrival.seen_bytes = -1
        arrival.resume()

"""Admission by bytes: one budget a process for everything that clients have sent and we have not answered.

Memory is counted when bytes arrive, never when a head announces them. A connection without room stops reading; its
bytes then wait in the sender's socket, where they belong. Small requests pass even when the budget is spent, so
heartbeats, commits and consumers stay alive while producers wait.

Connections that have not shown yet who they are share a small budget of their own (`strangers`): whatever they send,
those who are known find room.

Requests that have arrived in part hold memory and cannot be answered, so a budget that is spent by them alone would
never be free again. The rules that keep it moving, `eldest` being the one among them that began first:

    used < bytes_max                   everybody reads on
    otherwise                          only the eldest reads on, up to an eighth of the budget beyond it
    that is spent too, by half         the youngest that waits is given up, and its sender told to try again, until the
    requests alone                     eldest has room; where nothing else is held, it may have any size
    somebody waits                     whoever is not kept waiting and brings less than RATE_BYTES a second is given up
    used > five quarters of bytes_max  the youngest that waits is given up: everybody has to read a little to know what
                                       is asked, and very many may ask

So the eldest is whole after a bounded time or given up, and then another one is the eldest. What is held by whole
requests is given back when they are answered; up to that last bound nobody is given up for that.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, final

SMALL_BYTES_MAX: Final = 4096
RESUME_SHARE: Final = 0.75  # Reading goes on when the budget is used to less than this.
ELDEST_SHARE: Final = 8  # This part of the budget comes on top for the eldest.
MOST_SHARE: Final = 4  # And this one for everybody together.
SHORT_READ_BYTES: Final = 16 * 1024  # Of each connection at once while there is no room: enough for small requests.
WHOLE_SHARE: Final = 16  # Less than this part in whole requests is not worth waiting for: a fetch may wait for minutes.
RATE_BYTES: Final = 64 * 1024
LOOK_S: Final = 1.0


@final
class Arrival:
    """What is here of a request that is not served yet. `resume` is called when there is room for more, `give_up` when
    it has to go: it must give everything back before it returns.
    """

    __slots__ = ("came_bytes", "give_up", "held_bytes", "is_waiting", "resume", "seen_bytes")

    def __init__(self, resume: Callable[[], None], give_up: Callable[[], None]) -> None:
        self.resume = resume
        self.give_up = give_up
        self.held_bytes = 0
        self.is_waiting = False  # It is we who keep it from reading on.
        self.came_bytes = 0  # Counted by its owner.
        self.seen_bytes = -1  # Of those at the last look; -1 before the first.


@final
class Budget:
    """See the module."""

    def __init__(self, bytes_max: int, strangers_bytes_max: int = 0) -> None:
        self.bytes_max = bytes_max
        self.strangers: Budget = Budget(strangers_bytes_max) if strangers_bytes_max else self
        self.used_bytes = 0
        self.arriving_bytes = 0  # Of those in requests that are not served yet.
        self.refusals = 0
        self.given_up = 0
        self._resume_below = int(bytes_max * RESUME_SHARE)
        self._eldest_max = bytes_max + bytes_max // ELDEST_SHARE
        self._most = bytes_max + bytes_max // MOST_SHARE
        self._whole_min = bytes_max // WHOLE_SHARE
        self._arrivals: dict[Arrival, None] = {}  # In the order in which they began.
        self._waiting = 0
        self._resuming = False
        self._looked_s = 0.0

    @property
    def is_overdrawn(self) -> bool:
        """True if whole requests and answers alone take more than there is: answers that nobody takes away."""
        return self.used_bytes - self.arriving_bytes > self.bytes_max

    # Whole requests

    def take(self, size_bytes: int) -> bool:
        """Whether so many bytes may be held now. The first request is always let in, whatever its size."""
        if size_bytes > SMALL_BYTES_MAX and self.used_bytes and self.used_bytes + size_bytes > self.bytes_max:
            self.refusals += 1
            return False
        self.used_bytes += size_bytes
        return True

    def give(self, size_bytes: int) -> None:
        """They are not held any more."""
        self.used_bytes -= size_bytes
        if self._waiting:
            self._go_on()

    # Requests that arrive

    def hold(self, arrival: Arrival, size_bytes: int) -> None:
        """So much more memory is taken by what is here of this request; its owner counts what comes."""
        if arrival not in self._arrivals:
            self._arrivals[arrival] = None
            arrival.seen_bytes = -1
        arrival.held_bytes += size_bytes
        self.arriving_bytes += size_bytes
        self.used_bytes += size_bytes

    def has_room(self, arrival: Arrival) -> bool:
        """True if more of this request may be read, or it may be served."""
        if self.used_bytes < self.bytes_max:
            return True
        for eldest in self._arrivals:
            if eldest is not arrival:
                return False
            return self.used_bytes < self._eldest_max or self.used_bytes - arrival.held_bytes <= self._whole_min
        return False

    def wait(self, arrival: Arrival) -> None:
        """Call `resume` once when there is room, perhaps at once."""
        self.refusals += 1
        if arrival not in self._arrivals:
            self._arrivals[arrival] = None
        if not arrival.is_waiting:
            arrival.is_waiting = True
            self._waiting += 1
        while self.used_bytes > self._most and self._give_up_the_youngest():
            pass
        self._go_on()

    def settle(self, arrival: Arrival, size_bytes: int) -> None:
        """So much of what it holds is a whole request that is served now, and is given back with `give`."""
        arrival.held_bytes -= size_bytes
        self.arriving_bytes -= size_bytes
        if arrival.is_waiting:
            arrival.is_waiting = False
            self._waiting -= 1
        if not arrival.held_bytes:
            self._arrivals.pop(arrival, None)

    def leave(self, arrival: Arrival) -> None:
        """Nothing of it is here any more."""
        held = arrival.held_bytes
        self.settle(arrival, held)
        if held or self._waiting:
            self.give(held)

    def look(self, now_s: float) -> None:
        """Give up whoever holds memory and brings next to nothing while others wait. Call it about once a second."""
        if now_s - self._looked_s < LOOK_S:
            return
        least = int(RATE_BYTES * min(now_s - self._looked_s, 2 * LOOK_S))
        self._looked_s = now_s
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
        if arrival in self._arrivals:  # Its owner is gone, and did not say so.
            self.leave(arrival)

    def _go_on(self) -> None:
        """Let those go on who have room, and see to it that the eldest has some."""
        if self._resuming:
            return
        self._resuming = True
        try:
            if self.used_bytes <= self._resume_below:
                for arrival in [one for one in self._arrivals if one.is_waiting]:
                    if arrival.is_waiting and self.has_room(arrival):
                        self._resume(arrival)
            self._help_the_eldest()
        finally:
            self._resuming = False

    def _help_the_eldest(self) -> None:
        while self._waiting:
            eldest = next(iter(self._arrivals))
            if not eldest.is_waiting:
                return
            if self.has_room(eldest):
                self._resume(eldest)
                if not eldest.is_waiting:
                    return
            if self.used_bytes - self.arriving_bytes > self._whole_min:
                return  # Those will be answered, and then there is room.
            if not self._give_up_the_youngest():
                return

    def _give_up_the_youngest(self) -> bool:
        """The youngest of those that wait, unless it is the eldest. False if there is none."""
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

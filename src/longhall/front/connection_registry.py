"""Everybody who is connected to a door, and the work that is under way for them.

Let in within two bounds, one for all and one for each address; in the end nobody is let in any more, what is owed is
waited for, and then everybody is sent home. What a connection speaks and when one is too slow is the door's to know.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Final, Generic, Protocol, TypeVar, final

from longhall.front.refused_connections import RefusedConnections
from longhall.world.ports import Listener

DRAIN_STEP_S: Final = 0.01


class RegisteredConnection(Protocol):
    """What is asked of a connection."""

    peer: str

    @property
    def is_owed(self) -> bool:
        """Whether it waits for an answer that cannot be asked for again elsewhere."""

    def stop_reading(self) -> None:
        """Take no more requests."""

    def close(self) -> None:
        """Hang up; what was written still goes out."""


GuestT = TypeVar("GuestT", bound=RegisteredConnection)


@final
class ConnectionRegistry(Generic[GuestT]):
    """See the module."""

    def __init__(self, count_max: int, per_address_max: int, door: str = "") -> None:
        self.guests: dict[GuestT, None] = {}  # In the order they came: sets have none.
        self.refused = RefusedConnections(door)
        self.listener: Listener | None = None
        self._count_max = count_max
        self._per_address_max = per_address_max
        self._per_address: Counter[str] = Counter()
        self._tasks: dict[asyncio.Task[None], None] = {}

    def enter(self, guest: GuestT, now_s: float = 0.0) -> bool:
        """Whether it may stay. One that may not is known as well until it leaves, so that it cannot stay for ever."""
        self._per_address[guest.peer] += 1
        self.guests[guest] = None
        if len(self.guests) > self._count_max:
            self.refused.note(guest.peer, "connections_max", self._count_max, now_s)
            return False
        if self._per_address[guest.peer] > self._per_address_max:
            self.refused.note(guest.peer, "connections_per_address_max", self._per_address_max, now_s)
            return False
        return True

    def leave(self, guest: GuestT) -> None:
        """It is gone."""
        del self.guests[guest]
        self._per_address[guest.peer] -= 1
        if not self._per_address[guest.peer]:
            del self._per_address[guest.peer]

    def employ(self, task: asyncio.Task[None]) -> None:
        """Work that is under way for somebody: it is cancelled when the door closes."""
        self._tasks[task] = None
        task.add_done_callback(self._dismiss)

    def _dismiss(self, task: asyncio.Task[None]) -> None:
        self._tasks.pop(task, None)

    def shut(self) -> None:
        """Nobody comes in any more."""
        if self.listener is not None:
            self.listener.close()
            self.listener = None

    async def drain(self, seconds: float) -> None:
        """Wait until nothing is owed to anybody, then send everybody home."""
        for guest in self.guests:
            guest.stop_reading()
        for _ in range(int(seconds / DRAIN_STEP_S)):
            if not any(guest.is_owed for guest in self.guests):
                break
            await asyncio.sleep(DRAIN_STEP_S)
        for guest in list(self.guests):
            guest.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.sleep(0)

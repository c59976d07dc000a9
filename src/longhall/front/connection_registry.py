"""The connections of a door within two limits, and the tasks that serve them.

One limit is for all connections, one for each client address. A door that stops closes its listener, waits for the
answers that are owed and closes all connections. The registry does not know the protocol of a connection, nor its
timeouts.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Final, Generic, Protocol, TypeVar, final

from longhall.front.identity import Principal
from longhall.front.refused_connections import RefusedConnections
from longhall.world.ports import Listener

DRAIN_STEP_S: Final = 0.01


class RegisteredConnection(Protocol):
    """The interface of a connection to the registry."""

    peer: str

    @property
    def principal(self) -> Principal | None:
        """The client that has logged in; of clients that log in with each request, the last one. None before."""

    @property
    def is_owed(self) -> bool:
        """True if an answer is outstanding to a request that the client cannot repeat at another node."""

    def stop_reading(self) -> None:
        """Take no more requests."""

    def close(self) -> None:
        """Close the connection; what was written is still sent."""


ConnectionT = TypeVar("ConnectionT", bound=RegisteredConnection)


@final
class ConnectionRegistry(Generic[ConnectionT]):
    """All connections of one door from `add` to `remove`, those over a limit included, and the tasks under way.

    Invariant: the counts by address are those of `registered`.
    """

    def __init__(self, count_max: int, per_address_max: int, door: str = "") -> None:
        self.registered: dict[ConnectionT, None] = {}  # Ordered, unlike a set.
        self.refused = RefusedConnections(door)
        self.listener: Listener | None = None
        self._count_max = count_max
        self._per_address_max = per_address_max
        self._per_address: Counter[str] = Counter()
        self._tasks: dict[asyncio.Task[None], None] = {}

    def limit(self, count_max: int, per_address_max: int) -> None:
        """Change the limits. Connections above them stay open; no further one is accepted."""
        self._count_max = count_max
        self._per_address_max = per_address_max

    def add(self, connection: ConnectionT, now_s: float = 0.0) -> bool:
        """True if the connection is within the limits. One that is not counts too until `remove`, so timeouts apply."""
        self._per_address[connection.peer] += 1
        self.registered[connection] = None
        if len(self.registered) > self._count_max:
            self.refused.note(connection.peer, "connections_max", self._count_max, now_s)
            return False
        if self._per_address[connection.peer] > self._per_address_max:
            self.refused.note(connection.peer, "connections_per_address_max", self._per_address_max, now_s)
            return False
        return True

    def remove(self, connection: ConnectionT) -> None:
        """The connection is closed."""
        del self.registered[connection]
        self._per_address[connection.peer] -= 1
        if not self._per_address[connection.peer]:
            del self._per_address[connection.peer]

    def track(self, task: asyncio.Task[None]) -> None:
        """Cancel this task at the end of `drain` if it is not done by then."""
        self._tasks[task] = None
        task.add_done_callback(self._untrack)

    def _untrack(self, task: asyncio.Task[None]) -> None:
        self._tasks.pop(task, None)

    def stop_accepting(self) -> None:
        """Close the listener."""
        if self.listener is not None:
            self.listener.close()
            self.listener = None

    async def drain(self, seconds: float) -> None:
        """Wait for the answers that are owed, at most so long, then close all connections and cancel all tasks."""
        for connection in self.registered:
            connection.stop_reading()
        for _ in range(int(seconds / DRAIN_STEP_S)):
            if not any(connection.is_owed for connection in self.registered):
                break
            await asyncio.sleep(DRAIN_STEP_S)
        for connection in list(self.registered):
            connection.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.sleep(0)

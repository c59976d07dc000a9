"""The limits of a registry, and the end of its connections."""

from __future__ import annotations

import asyncio

from longhall.front.connection_registry import ConnectionRegistry
from longhall.front.identity import Principal


class Connection:
    def __init__(self, connections: ConnectionRegistry[Connection], peer: str) -> None:
        self.peer = peer
        self.principal: Principal | None = None
        self.is_owed = False
        self.reads = True
        self._connections = connections

    def stop_reading(self) -> None:
        self.reads = False

    def close(self) -> None:
        self._connections.remove(self)


class Listener:
    closed = 0

    def close(self) -> None:
        self.closed += 1


def test_there_are_two_limits() -> None:
    connections: ConnectionRegistry[Connection] = ConnectionRegistry(3, 2)
    first, second, third, fourth = (Connection(connections, peer) for peer in ("a", "a", "a", "b"))
    assert [connections.add(connection) for connection in (first, second, third)] == [True, True, False]
    third.close()
    assert connections.add(fourth)
    fifth = Connection(connections, "c")
    assert not connections.add(fifth)
    assert connections.refused.count == 2
    for connection in (first, fifth):
        connection.close()
    assert connections.add(Connection(connections, "a"))
    assert len(connections.registered) == 3


async def test_a_drain_waits_for_owed_answers_and_cancels_tasks() -> None:
    connections: ConnectionRegistry[Connection] = ConnectionRegistry(9, 9)
    listener = Listener()
    connections.listener = listener
    owed, idle = Connection(connections, "a"), Connection(connections, "b")
    owed.is_owed = True
    for connection in (owed, idle):
        assert connections.add(connection)
    waiting = asyncio.create_task(asyncio.Event().wait())
    connections.track(waiting)  # type: ignore[arg-type]
    connections.stop_accepting()
    connections.stop_accepting()
    assert listener.closed == 1
    leaving = asyncio.create_task(connections.drain(30))
    await asyncio.sleep(0.05)
    assert not leaving.done()
    assert not idle.reads
    owed.is_owed = False
    await leaving
    assert not connections.registered
    assert waiting.cancelled()


async def test_a_drain_ends_after_its_time() -> None:
    connections: ConnectionRegistry[Connection] = ConnectionRegistry(9, 9)
    owed = Connection(connections, "a")
    owed.is_owed = True
    assert connections.add(owed)
    await connections.drain(0.02)
    assert not connections.registered

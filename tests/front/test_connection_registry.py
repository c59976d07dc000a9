"""Who is let in, and how a connections goes home."""

from __future__ import annotations

import asyncio

from longhall.front.connection_registry import ConnectionRegistry


class Guest:
    def __init__(self, connections: ConnectionRegistry[Guest], peer: str) -> None:
        self.peer = peer
        self.is_owed = False
        self.reads = True
        self._crowd = connections

    def stop_reading(self) -> None:
        self.reads = False

    def close(self) -> None:
        self._crowd.leave(self)


class Listener:
    closed = 0

    def close(self) -> None:
        self.closed += 1


def test_there_are_two_bounds() -> None:
    connections: ConnectionRegistry[Guest] = ConnectionRegistry(3, 2)
    first, second, third, fourth = (Guest(connections, peer) for peer in ("a", "a", "a", "b"))
    assert [connections.enter(guest) for guest in (first, second, third)] == [True, True, False]
    third.close()
    assert connections.enter(fourth)
    fifth = Guest(connections, "c")
    assert not connections.enter(fifth)
    assert connections.refused.count == 2
    for guest in (first, fifth):
        guest.close()
    assert connections.enter(Guest(connections, "a"))
    assert len(connections.guests) == 3


async def test_what_is_owed_is_waited_for_and_what_only_waits_is_not() -> None:
    connections: ConnectionRegistry[Guest] = ConnectionRegistry(9, 9)
    listener = Listener()
    connections.listener = listener
    owed, idle = Guest(connections, "a"), Guest(connections, "b")
    owed.is_owed = True
    for guest in (owed, idle):
        assert connections.enter(guest)
    waiting = asyncio.create_task(asyncio.Event().wait())
    connections.employ(waiting)  # type: ignore[arg-type]
    connections.shut()
    connections.shut()
    assert listener.closed == 1
    leaving = asyncio.create_task(connections.drain(30))
    await asyncio.sleep(0.05)
    assert not leaving.done()
    assert not idle.reads
    owed.is_owed = False
    await leaving
    assert not connections.guests
    assert waiting.cancelled()


async def test_nobody_is_waited_for_longer_than_that() -> None:
    connections: ConnectionRegistry[Guest] = ConnectionRegistry(9, 9)
    owed = Guest(connections, "a")
    owed.is_owed = True
    assert connections.enter(owed)
    await connections.drain(0.02)
    assert not connections.guests

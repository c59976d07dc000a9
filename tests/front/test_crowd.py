"""Who is let in, and how a crowd goes home."""

from __future__ import annotations

import asyncio

from longhall.front.crowd import Crowd


class Guest:
    def __init__(self, crowd: Crowd[Guest], peer: str) -> None:
        self.peer = peer
        self.is_owed = False
        self.reads = True
        self._crowd = crowd

    def stop_reading(self) -> None:
        self.reads = False

    def close(self) -> None:
        self._crowd.leave(self)


class Listener:
    closed = 0

    def close(self) -> None:
        self.closed += 1


def test_there_are_two_bounds() -> None:
    crowd: Crowd[Guest] = Crowd(3, 2)
    first, second, third, fourth = (Guest(crowd, peer) for peer in ("a", "a", "a", "b"))
    assert [crowd.enter(guest) for guest in (first, second, third)] == [True, True, False]
    third.close()
    assert crowd.enter(fourth)
    fifth = Guest(crowd, "c")
    assert not crowd.enter(fifth)
    assert crowd.refused.count == 2
    for guest in (first, fifth):
        guest.close()
    assert crowd.enter(Guest(crowd, "a"))
    assert len(crowd.guests) == 3


async def test_what_is_owed_is_waited_for_and_what_only_waits_is_not() -> None:
    crowd: Crowd[Guest] = Crowd(9, 9)
    listener = Listener()
    crowd.listener = listener
    owed, idle = Guest(crowd, "a"), Guest(crowd, "b")
    owed.is_owed = True
    for guest in (owed, idle):
        assert crowd.enter(guest)
    waiting = asyncio.create_task(asyncio.Event().wait())
    crowd.employ(waiting)  # type: ignore[arg-type]
    crowd.shut()
    crowd.shut()
    assert listener.closed == 1
    leaving = asyncio.create_task(crowd.drain(30))
    await asyncio.sleep(0.05)
    assert not leaving.done()
    assert not idle.reads
    owed.is_owed = False
    await leaving
    assert not crowd.guests
    assert waiting.cancelled()


async def test_nobody_is_waited_for_longer_than_that() -> None:
    crowd: Crowd[Guest] = Crowd(9, 9)
    owed = Guest(crowd, "a")
    owed.is_owed = True
    assert crowd.enter(owed)
    await crowd.drain(0.02)
    assert not crowd.guests

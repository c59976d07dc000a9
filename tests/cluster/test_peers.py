"""Nodes that speak to each other: who belongs to the hall is answered, refusals arrive as they were, silence ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from longhall.cluster.peers import GREETING_S_MAX, REQUESTS_MAX, SILENCE_S, Peers
from longhall.errors import Code, LonghallError
from longhall.simulation.world import Simulation

Play = Callable[[Peers, Peers, Simulation], Coroutine[Any, Any, None]]


def between(play: Play, *, hall: str = "hall", other_hall: str = "hall", secret: str = "") -> None:
    """Two nodes; the second one listens and answers `echo`, `refuse` and `never`."""
    simulation = Simulation(1)

    async def echo(node: int, body: bytes) -> bytes:
        return b"%d:" % node + body

    async def refuse(node: int, body: bytes) -> bytes:
        raise LonghallError(Code.QUEUE_FULL, "no more room")

    async def never(node: int, body: bytes) -> bytes:
        await asyncio.sleep(1e6)
        return b""

    async def whole() -> None:
        there = simulation.host("two").boot()
        second = Peers(there, other_hall, 2, 1, secret="known to workers alone" if secret else "")
        for verb, handler in (("echo", echo), ("refuse", refuse), ("never", never)):
            second.serve(verb, handler)
        await there.process.start(_open(second))
        here = simulation.host("one").boot()
        first = Peers(here, hall, 1, 1, secret=secret)
        first.addresses[2] = ("two", 7000)
        await here.process.start(play(first, second, simulation))
        await here.process.start(first.close())
        await there.process.start(second.close())

    simulation.run(whole())
    assert simulation.loop.failures == []
    simulation.close()


async def _open(peers: Peers) -> None:
    assert await peers.open("0.0.0.0", 7000) == 7000


def test_requests_are_answered_in_whatever_number() -> None:
    async def play(first: Peers, second: Peers, simulation: Simulation) -> None:
        assert await first.request(2, "echo", b"hello", 5) == b"1:hello"
        large = b"x" * 3_000_000
        assert await first.request(2, "echo", large, 5) == b"1:" + large
        answers = await asyncio.gather(*(first.request(2, "echo", b"%d" % number, 5) for number in range(200)))
        assert answers == [b"1:%d" % number for number in range(200)]

    between(play)


def test_a_refusal_arrives_as_it_was() -> None:
    async def play(first: Peers, second: Peers, simulation: Simulation) -> None:
        with pytest.raises(LonghallError, match="no more room") as caught:
            await first.request(2, "refuse", b"", 5)
        assert caught.value.code is Code.QUEUE_FULL
        with pytest.raises(LonghallError) as caught:
            await first.request(2, "nobody-knows-this", b"", 5)
        assert caught.value.code is Code.NOT_READY

    between(play)


def test_who_does_not_know_the_secret_is_refused_and_not_told_it() -> None:
    async def stranger(first: Peers, second: Peers, simulation: Simulation) -> None:
        with pytest.raises(ConnectionError, match="stranger") as caught:
            await first.request(2, "echo", b"", 5)
        assert "known to workers" not in str(caught.value)

    async def worker(first: Peers, second: Peers, simulation: Simulation) -> None:
        assert await first.request(2, "echo", b"hello", 5) == b"1:hello"

    between(stranger, secret="guessed")
    between(worker, secret="known to workers alone")


def test_another_hall_is_refused() -> None:
    async def play(first: Peers, second: Peers, simulation: Simulation) -> None:
        with pytest.raises(ConnectionError, match="another"):
            await first.request(2, "echo", b"", 5)

    between(play, other_hall="another")


def test_who_cannot_be_reached_is_said_at_once() -> None:
    async def play(first: Peers, second: Peers, simulation: Simulation) -> None:
        with pytest.raises(ConnectionError):
            await first.request(3, "echo", b"", 5)
        first.addresses[3] = ("three", 7000)
        with pytest.raises(OSError):
            await first.request(3, "echo", b"", 5)

    between(play)


def test_silence_ends_and_the_next_request_finds_a_fresh_connection() -> None:
    async def play(first: Peers, second: Peers, simulation: Simulation) -> None:
        with pytest.raises(TimeoutError):
            await first.request(2, "never", b"", 0.5)
        assert await first.request(2, "echo", b"again", 5) == b"1:again"
        simulation.fabric.cut("one", "two")
        with pytest.raises(TimeoutError):
            await first.request(2, "echo", b"lost", 1)
        simulation.fabric.heal("one", "two")
        assert await first.request(2, "echo", b"healed", 5) == b"1:healed"

    between(play)


def test_too_many_requests_are_refused_and_not_kept() -> None:
    async def play(first: Peers, second: Peers, simulation: Simulation) -> None:
        waiting = [asyncio.ensure_future(first.request(2, "never", b"", SILENCE_S + 1)) for _ in range(REQUESTS_MAX)]
        await asyncio.sleep(1)
        with pytest.raises(LonghallError) as caught:
            await first.request(2, "echo", b"", 1)
        assert caught.value.code is Code.OVERLOADED
        ended = await asyncio.gather(*waiting, return_exceptions=True)
        assert all(isinstance(one, OSError | TimeoutError) for one in ended)
        assert await first.request(2, "echo", b"later", 5) == b"1:later"

    between(play)


def test_a_connection_that_is_silent_is_given_up_also_by_those_who_ask_shortly() -> None:
    async def play(first: Peers, second: Peers, simulation: Simulation) -> None:
        assert await first.request(2, "echo", b"before", 5) == b"1:before"
        (transport,) = [near for near, _ in simulation.fabric._open_connections() if near.host == "one"]
        assert transport._peer is not None
        transport._peer.silence()
        unanswered = 0
        while unanswered <= SILENCE_S + 1:
            try:
                await first.request(2, "echo", b"", 1)
                break
            except TimeoutError:
                unanswered += 1
        assert SILENCE_S - 1 <= unanswered <= SILENCE_S + 1

    between(play)


@pytest.mark.parametrize("said", [b"", b"GET / HTTP/1.1\r\n\r\n", b"\x00\x00\x00\x02\x09x"])
def test_who_does_not_greet_is_sent_away(said: bytes) -> None:
    async def play(first: Peers, second: Peers, simulation: Simulation) -> None:
        lost = asyncio.Event()

        class Stranger(asyncio.Protocol):
            def connection_made(self, transport: asyncio.BaseTransport) -> None:
                assert isinstance(transport, asyncio.Transport)
                transport.write(said)

            def connection_lost(self, error: Exception | None) -> None:
                lost.set()

        await first._network.connect(Stranger, "two", 7000)
        async with asyncio.timeout(2 * GREETING_S_MAX):
            await lost.wait()
        assert await first.request(2, "echo", b"well", 5) == b"1:well"

    between(play)

"""Nodes that speak to each other: who belongs to the hall is answered, refusals arrive as they were, silence ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec
import pytest

from longhall.cluster.rpc.authentication import (
    CROWD,
    GARBAGE,
    HALL,
    LEFT,
    LISTENER,
    NO_SECRET,
    SECRET,
    SILENT,
    Secrets,
)
from longhall.cluster.rpc.peers import (
    FOLLOW_PURPOSE,
    GREETING_S_MAX,
    GREETINGS_MAX,
    GUESTS_FROM,
    REQUESTS_MAX,
    Audience,
    Peers,
)
from longhall.cluster.rpc.request_client import SILENCE_S
from longhall.cluster.rpc.wire import GREETING, Greeting, encode
from longhall.errors import Code, LonghallError
from simulation.world import Simulation

Play = Callable[[Peers, Peers, Simulation], Coroutine[Any, Any, None]]


OURS, THEIRS = b"o" * 32, b"t" * 32


def between(
    play: Play,
    *,
    hall: str = "hall",
    other_hall: str = "hall",
    first_node: int = 1,
    first_secrets: Secrets | None = None,
    second_secrets: Secrets | None = None,
) -> None:
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
        second = Peers(there, other_hall, 2, 1, secrets=second_secrets)
        for verb, handler in (("echo", echo), ("refuse", refuse), ("never", never)):
            second.serve(verb, handler)
        await there.process.start(_open(second))
        here = simulation.host("one").boot()
        first = Peers(here, hall, first_node, 1, secrets=first_secrets)
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


async def _is_welcome(first: Peers, second: Peers, simulation: Simulation) -> None:
    assert await first.request(2, "echo", b"hello", 5) == b"1:hello"
    assert not any(second.refused.values())


def _is_refused(by_first: str = "", by_second: str = "") -> Play:
    """Each side counts what it saw, and nobody learns what hall this is."""

    async def play(first: Peers, second: Peers, simulation: Simulation) -> None:
        with pytest.raises(ConnectionError) as caught:
            await first.request(2, "echo", b"", 5)
        assert "hall" not in str(caught.value)
        await asyncio.sleep(1)
        assert {reason for reason, times in first.refused.items() if times} == {by_first} - {""}
        assert {reason for reason, times in second.refused.items() if times} == {by_second} - {""}

    return play


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ([OURS], [OURS]),
        ([OURS, THEIRS], [THEIRS, OURS]),
        ([THEIRS, OURS], [OURS, THEIRS]),
        ([NO_SECRET, OURS], [OURS, NO_SECRET]),
        ([OURS, NO_SECRET], [NO_SECRET, OURS]),
        ([NO_SECRET], [NO_SECRET, OURS]),
        ([NO_SECRET], [OURS, NO_SECRET]),
    ],
)
def test_nodes_with_a_common_secret_talk_also_while_it_is_replaced(first: list[bytes], second: list[bytes]) -> None:
    between(_is_welcome, first_secrets=Secrets(first), second_secrets=Secrets(second))


def test_a_node_with_another_secret_is_refused() -> None:
    play = _is_refused(by_first=LISTENER, by_second=LEFT)
    between(play, first_secrets=Secrets([THEIRS]), second_secrets=Secrets([OURS]))


def test_a_node_without_a_secret_and_one_with_a_secret_refuse_each_other() -> None:
    between(_is_refused(by_second=SECRET), second_secrets=Secrets([OURS]))
    between(_is_refused(by_second=SECRET), first_secrets=Secrets([OURS]))


def test_a_node_of_another_hall_is_refused() -> None:
    between(_is_refused(by_second=HALL), hall="one", other_hall="another hall")
    ours = Secrets([OURS])
    play = _is_refused(by_first=LISTENER, by_second=LEFT)
    between(play, hall="one", other_hall="another hall", first_secrets=ours, second_secrets=ours)


def test_a_node_at_the_address_of_another_is_refused() -> None:
    async def play(first: Peers, second: Peers, simulation: Simulation) -> None:
        first.addresses[3] = first.addresses[2]
        with pytest.raises(ConnectionError):
            await first.request(3, "echo", b"", 5)
        assert first.refused[LISTENER] == 1

    between(play, first_secrets=Secrets([OURS]), second_secrets=Secrets([OURS]))


def test_a_secret_is_replaced_without_a_pause() -> None:
    ours, theirs = Secrets([OURS]), Secrets([OURS])

    async def play(first: Peers, second: Peers, simulation: Simulation) -> None:
        for step in ([OURS, THEIRS], [THEIRS, OURS], [THEIRS]):
            for secrets in (ours, theirs):
                secrets.replace(step)
                assert await first.request(2, "echo", b"old", 5) == b"1:old"
                (await first.dial(2, "request")).abort("made for the test")
        ours.replace([OURS])
        with pytest.raises(ConnectionError):
            await first.dial(2, "request")

    between(play, first_secrets=ours, second_secrets=theirs)


def test_each_verb_has_an_audience() -> None:
    async def members_only(first: Peers, second: Peers, simulation: Simulation) -> None:
        second.serve("data", second.handler("echo") or pytest.fail("it is served"), Audience.MEMBERS)
        assert await first.request(2, "data", b"", 5) == b"1:"
        second.is_member = lambda node: node == 7
        with pytest.raises(LonghallError, match="node 1 is not known") as caught:
            await first.request(2, "data", b"", 5)
        assert caught.value.code is Code.NOT_READY
        assert await first.request(2, "echo", b"", 5) == b"1:"
        with pytest.raises(ConnectionError, match="not known"):
            await first.dial(2, FOLLOW_PURPOSE)

    async def guest(first: Peers, second: Peers, simulation: Simulation) -> None:
        second.serve("carried", second.handler("echo") or pytest.fail("it is served"), Audience.GUESTS)
        assert await first.request(2, "carried", b"", 5) == b"%d:" % GUESTS_FROM
        with pytest.raises(LonghallError):
            await first.request(2, "echo", b"", 5)

    between(members_only)
    between(guest, first_node=GUESTS_FROM)


def test_a_body_that_cannot_be_read_is_refused() -> None:
    async def play(first: Peers, second: Peers, simulation: Simulation) -> None:
        async def strict(node: int, body: bytes) -> bytes:
            return str(msgspec.msgpack.decode(body, type=int)).encode()

        second.serve("strict", strict)
        with pytest.raises(LonghallError) as caught:
            await first.request(2, "strict", b"\xa1x", 5)
        assert caught.value.code is Code.INVALID_REQUEST
        assert await first.request(2, "strict", b"\x07", 5) == b"7"

    between(play)


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


class Stranger(asyncio.Protocol):
    """Says something, and keeps what it hears."""

    def __init__(self, said: bytes) -> None:
        self.heard = b""
        self.lost = asyncio.Event()
        self._said = said

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.write(self._said)

    def data_received(self, data: bytes) -> None:
        self.heard += data

    def connection_lost(self, error: Exception | None) -> None:
        self.lost.set()


PLAIN = encode(GREETING, Greeting(hall="hall", node=1, incarnation=1, purpose="request"))


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (b"", SILENT),
        (b"GET / HTTP/1.1\r\n\r\n", GARBAGE),
        (b"\x00\x00\x00\x02\x09x", GARBAGE),
        (b"\x00\x00\x00\x02\x20x", GARBAGE),
        (b"\x00\x00\x10\x00\x20" + b"x" * 600, GARBAGE),
        (PLAIN, SECRET),
    ],
)
def test_a_stranger_is_sent_away_and_counted(said: bytes, reason: str) -> None:
    async def play(first: Peers, second: Peers, simulation: Simulation) -> None:
        stranger = Stranger(said)
        await first._network.connect(lambda: stranger, "two", 7000)
        async with asyncio.timeout(2 * GREETING_S_MAX):
            await stranger.lost.wait()
        assert b"hall" not in stranger.heard
        assert {name for name, times in second.refused.items() if times} == {reason}
        assert await first.request(2, "echo", b"well", 5) == b"1:well"

    between(play, first_secrets=Secrets([OURS]), second_secrets=Secrets([OURS]))


def test_many_strangers_do_not_keep_a_node_out() -> None:
    async def play(first: Peers, second: Peers, simulation: Simulation) -> None:
        strangers = [Stranger(b"") for _ in range(GREETINGS_MAX + 10)]
        for one in strangers:
            await first._network.connect(lambda one=one: one, "two", 7000)  # type: ignore[misc]
        assert await first.request(2, "echo", b"well", 1) == b"1:well"
        assert second.refused[CROWD] >= 10
        assert len(second._unproven) <= GREETINGS_MAX

    between(play, first_secrets=Secrets([OURS]), second_secrets=Secrets([OURS]))


def test_a_look_at_the_port_is_no_refusal() -> None:
    async def play(first: Peers, second: Peers, simulation: Simulation) -> None:
        stranger = Stranger(b"")
        transport_made = await first._network.connect(lambda: stranger, "two", 7000)
        assert transport_made is stranger
        (near,) = [near for near, _ in simulation.fabric._open_connections() if near.host == "one"]
        near.abort()
        await asyncio.sleep(2 * GREETING_S_MAX)
        assert not any(second.refused.values())

    between(play, first_secrets=Secrets([OURS]), second_secrets=Secrets([OURS]))

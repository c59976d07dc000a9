"""Carrying over the links between nodes: whole, in pieces, given up, and with nobody to carry to."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from longhall.broker.leadership import Host
from longhall.cluster import routing
from longhall.cluster.routing import PIECE_BYTES, Router
from longhall.cluster.rpc.peers import Peers
from longhall.errors import Code, LonghallError
from longhall.world.real.entropy import RealEntropy
from longhall.world.real.network import RealNetwork


class Told:
    """A `Leadership` that says what the test wants."""

    def __init__(self, node: int) -> None:
        self.node = node
        self.leader = 1

    def leads(self, shard: int) -> bool:
        return self.leader == self.node

    def leader_node(self, shard: int) -> int:
        return self.leader

    def epoch(self, shard: int) -> int:
        return 1

    def replicas(self, shard: int) -> list[int]:
        return [1, 2]

    in_sync = replicas

    def members(self) -> list[Host]:
        return []


class World:
    """As much of one as links need."""

    network = RealNetwork()
    entropy = RealEntropy()


class Pair:
    """Node 1 leads and answers what `answers` says; node 2 carries."""

    def __init__(self) -> None:
        made: Any = World()
        self.told = {number: Told(number) for number in (1, 2)}
        self.peers = {number: Peers(made, "hall", number, 1) for number in (1, 2)}
        self.asked: list[tuple[str, str, int]] = []
        self.answers: dict[str, Any] = {}
        self.routers = {n: Router(self.told[n], self.peers[n], self._answer) for n in (1, 2)}

    async def _answer(self, door: str, peer: str, request: bytes) -> bytes:
        self.asked.append((door, peer, len(request)))
        answer = self.answers[door]
        if isinstance(answer, asyncio.Event):
            await answer.wait()
            return b"late"
        if isinstance(answer, Exception):
            raise answer
        return bytes(answer(request))


@asynccontextmanager
async def pair() -> AsyncIterator[Pair]:
    made = Pair()
    port = await made.peers[1].open("127.0.0.1", 0)
    made.peers[2].addresses = {1: ("127.0.0.1", port)}
    try:
        yield made
    finally:
        for peers in made.peers.values():
            await peers.close()


async def _until(holds: Callable[[], bool]) -> None:
    for _ in range(20_000):
        if holds():
            return
        await asyncio.sleep(0.001)
    raise AssertionError("it never came to pass")


async def test_there_and_back_whatever_the_size() -> None:
    async with pair() as two:
        two.answers["sqs"] = lambda request: request[::-1]
        for size in (0, 1, 1000, PIECE_BYTES, PIECE_BYTES + 1, 2 * PIECE_BYTES, 2 * PIECE_BYTES + 7):
            request = bytes(range(256)) * (size // 256) + b"x" * (size % 256)
            assert await two.routers[2].carry("sqs", "10.0.0.1", request) == request[::-1]
            assert two.asked[-1] == ("sqs", "10.0.0.1", size)
        assert two.routers[1]._held == {}
        assert two.routers[1]._held_bytes == 0
        assert two.routers[2].elsewhere()
        assert not two.routers[1].elsewhere()


async def test_a_refusal_comes_back_as_it_was() -> None:
    async with pair() as two:
        two.answers["http"] = LonghallError(Code.STORAGE_FULL, "no room")
        with pytest.raises(LonghallError) as refused:
            await two.routers[2].carry("http", "", b"")
        assert refused.value.code is Code.STORAGE_FULL


async def test_who_gives_up_is_given_up_at_the_other_end() -> None:
    async with pair() as two:
        two.answers["sqs"] = asyncio.Event()
        waiting = asyncio.ensure_future(two.routers[2].carry("sqs", "", b""))
        await _until(lambda: bool(two.routers[1]._working))
        waiting.cancel()
        await _until(lambda: not two.routers[1]._working)
        with pytest.raises(asyncio.CancelledError):
            await waiting


async def test_who_is_gone_is_given_up_where_it_waits_and_nowhere_else() -> None:
    async with pair() as two:
        let_go = two.answers["sqs"] = asyncio.Event()
        asked = [asyncio.ensure_future(two.routers[2].carry("sqs", "", b"", waits)) for waits in (True, False)]
        await _until(lambda: len(two.routers[1]._working) == 2)
        await two.peers[2].close()
        await _until(lambda: len(two.routers[1]._working) == 1)
        assert not two.routers[1]._waiting
        let_go.set()
        await _until(lambda: not two.routers[1]._working)
        for one in asked:
            with pytest.raises(LonghallError) as refused:
                await one
            assert refused.value.code is Code.NOT_READY


async def test_what_needs_no_task_is_answered_without_one() -> None:
    async with pair() as two:
        let_go = asyncio.Event()

        async def wait() -> bytes:
            await let_go.wait()
            return b"late"

        def begin(request: bytes, done: Callable[[bytes], None]) -> Any:
            if request == b"wait":
                return wait()
            asyncio.get_running_loop().call_later(0.001, done, request[::-1])
            return None

        two.routers[1].answer_at_once("sqs-call", begin)
        two.answers["sqs"] = lambda request: b"as ever"
        carry = two.routers[2].carry
        for size in (3, PIECE_BYTES, PIECE_BYTES + 1):  # The last one is put together first, the ordinary way.
            two.answers["sqs-call"] = lambda request: request[::-1]
            assert await carry("sqs-call", "", b"ab" * size) == b"ba" * size
        assert await carry("sqs", "", b"") == b"as ever"
        first, second = (asyncio.ensure_future(carry("sqs-call", "", b"wait", True)) for _ in range(2))
        await _until(lambda: len(two.routers[1]._waiting) == 2)
        first.cancel()
        await _until(lambda: len(two.routers[1]._waiting) == 1)
        let_go.set()
        assert await second == b"late"
        assert not two.routers[1]._working
        assert not two.routers[1]._waiting
        two.told[1].leader = 2  # Whoever does not lead looks at nothing.
        waiting = asyncio.ensure_future(carry("sqs-call", "", b"ab"))
        await asyncio.sleep(0.05)
        assert not waiting.done()
        two.told[1].leader = 1
        assert await waiting == b"ba"


async def test_where_a_death_breaks_the_link_nobody_has_to_look() -> None:
    async with pair() as two:
        watched, two.routers[2] = two.routers[2], Router(two.told[2], two.peers[2], two._answer, changed_s=None)
        two.answers["sqs"] = lambda request: request[::-1]
        assert await two.routers[2].carry("sqs", "", b"abc") == await watched.carry("sqs", "", b"abc") == b"cba"
        two.answers["sqs"] = asyncio.Event()
        waiting = asyncio.ensure_future(two.routers[2].carry("sqs", "", b"", True))
        await _until(lambda: bool(two.routers[1]._waiting))
        waiting.cancel()
        await _until(lambda: not two.routers[1]._working)
        waiting = asyncio.ensure_future(two.routers[2].carry("sqs", "", b""))
        await _until(lambda: bool(two.routers[1]._working))
        await two.peers[1].close()
        with pytest.raises(LonghallError) as refused:
            await waiting
        assert refused.value.code is Code.NOT_READY


async def test_an_answer_of_one_who_leads_no_longer_is_not_waited_for() -> None:
    async with pair() as two:
        two.answers["sqs"] = asyncio.Event()
        waiting = asyncio.ensure_future(two.routers[2].carry("sqs", "", b""))
        await _until(lambda: bool(two.routers[1]._working))
        two.told[2].leader = 0
        with pytest.raises(LonghallError) as refused:
            await waiting
        assert refused.value.code is Code.NOT_READY


async def test_with_nobody_to_carry_to(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routing, "LEADERLESS_S_MAX", 0.05)
    async with pair() as two:
        two.answers["sqs"] = lambda request: b"done"
        two.told[2].leader = 0
        with pytest.raises(LonghallError) as refused:
            await two.routers[2].carry("sqs", "", b"")
        assert refused.value.code is Code.NOT_READY
        two.told[2].leader = 1
        two.told[1].leader = 2  # The other one does not believe it, and looks at nothing.
        with pytest.raises(LonghallError) as refused:
            await two.routers[2].carry("sqs", "", b"")
        assert refused.value.code is Code.NOT_READY
        assert two.asked == []
        monkeypatch.setattr(routing, "LEADERLESS_S_MAX", 30.0)
        waiting = asyncio.ensure_future(two.routers[2].carry("sqs", "", b""))
        await asyncio.sleep(0.05)
        two.told[1].leader = 1  # Now it does: what was never looked at is carried on.
        assert await waiting == b"done"


async def test_there_is_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routing, "CARRIED_MAX", 1)
    async with pair() as two:
        two.answers["sqs"] = asyncio.Event()
        waiting = asyncio.ensure_future(two.routers[2].carry("sqs", "", b""))
        await asyncio.sleep(0)
        with pytest.raises(LonghallError) as refused:
            await two.routers[2].carry("sqs", "", b"")
        assert refused.value.code is Code.OVERLOADED
        two.answers["sqs"].set()
        assert await waiting == b"late"

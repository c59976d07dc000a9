"""Links that cut, and processes that die with open connections."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import cast

import pytest

from simulation.world import Simulation


class Peer(asyncio.Protocol):
    def __init__(self) -> None:
        self.data = bytearray()
        self.lost: list[Exception | None] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self.data += data

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.append(exc)


class Pair:
    """A client on one host with an open connection to a server on another."""

    def __init__(self) -> None:
        self.simulation = Simulation(3)
        self.server_host = self.simulation.host("server")
        self.server_world = self.server_host.boot()
        self.client_world = self.simulation.host("client").boot()
        self.accepted: list[Peer] = []

    async def connect(self) -> tuple[Peer, Peer]:
        def factory() -> Peer:
            self.accepted.append(Peer())
            return self.accepted[-1]

        if not self.accepted:
            await self.server_world.network.listen(factory, "0.0.0.0", 9000)
        client = cast(Peer, await self.client_world.network.connect(Peer, "server", 9000))
        await asyncio.sleep(0.1)
        return client, self.accepted[-1]


@pytest.fixture
def pair() -> Iterator[Pair]:
    pair = Pair()
    yield pair
    assert pair.simulation.loop.failures == []
    pair.simulation.close()


def test_a_cut_holds_one_direction_until_it_heals(pair: Pair) -> None:
    async def scenario() -> None:
        client, server = await pair.connect()
        pair.simulation.fabric.cut("client", "server")
        client.transport.write(b"to the server")
        server.transport.write(b"to the client")
        await asyncio.sleep(60)
        assert server.data == b""
        assert client.data == b"to the client"
        pair.simulation.fabric.heal("client", "server")
        await asyncio.sleep(1)
        assert server.data == b"to the server"

    pair.simulation.run(scenario())


def test_connecting_over_a_cut_link_times_out(pair: Pair) -> None:
    async def scenario() -> None:
        await pair.connect()
        pair.simulation.fabric.cut("server", "client")
        with pytest.raises(TimeoutError):
            await pair.connect()

    pair.simulation.run(scenario())


def test_a_reset_ends_both_ends(pair: Pair) -> None:
    async def scenario() -> None:
        client, server = await pair.connect()
        pair.simulation.fabric.reset("server")
        await asyncio.sleep(1)
        for peer in (client, server):
            assert isinstance(peer.lost[0], ConnectionResetError)
            assert len(peer.lost) == 1
            assert peer.transport.is_closing()
        client.transport.write(b"into the void")

    pair.simulation.run(scenario())


@pytest.mark.parametrize("how", ["kill", "cut_power"])
def test_peers_learn_of_a_dead_process_and_the_dead_process_runs_nothing(pair: Pair, how: str) -> None:
    async def scenario() -> None:
        client, server = await pair.connect()
        client.transport.write(b"x" * 100)
        getattr(pair.server_host, how)()
        await asyncio.sleep(10)
        assert server.data == b""
        assert server.lost == []
        assert isinstance(client.lost[0], ConnectionResetError)
        with pytest.raises(ConnectionRefusedError):
            await pair.connect()

    pair.simulation.run(scenario())


def test_the_clock_of_a_host_can_jump_and_drift(pair: Pair) -> None:
    async def scenario() -> None:
        clock = pair.server_world.clock
        start = clock.wall_ms()
        pair.server_host.clock_offset_ms = -5000
        assert clock.wall_ms() == start - 5000
        pair.server_host.clock_drift = 0.5
        before = clock.monotonic_ms()
        await asyncio.sleep(10)
        assert 15_000 <= clock.monotonic_ms() - before <= 15_001

    pair.simulation.run(scenario())

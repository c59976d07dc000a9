"""Properties of every network, real or simulated: ordered streams, ends, refusals, back-pressure."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from tests.world.conftest import Bench


class Peer(asyncio.Protocol):
    """Collects what it receives."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.transport: asyncio.Transport | None = None
        self.lost: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()
        self.heard = asyncio.Event()
        self.paused = 0
        self.resumed = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self.data += data
        self.heard.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.set_result(exc)

    def pause_writing(self) -> None:
        self.paused += 1

    def resume_writing(self) -> None:
        self.resumed.set()

    async def wait_bytes(self, size: int) -> None:
        while len(self.data) < size:
            self.heard.clear()
            await self.heard.wait()


class BufferedPeer(asyncio.BufferedProtocol):
    """The same with its own buffer, smaller than the data sent."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.buffer = bytearray(1000)
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def get_buffer(self, sizehint: int) -> bytearray:
        return self.buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.data += self.buffer[:nbytes]

    def connection_lost(self, exc: Exception | None) -> None:
        self.done.set_result(None)


async def pair(bench: Bench) -> tuple[Peer, Peer]:
    accepted: asyncio.Future[Peer] = asyncio.get_running_loop().create_future()

    class Accepting(Peer):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            super().connection_made(transport)
            accepted.set_result(self)

    listener, port = await bench.world.network.listen(Accepting, "127.0.0.1", 0)
    client = cast(Peer, await bench.world.network.connect(Peer, "127.0.0.1", port))
    server = await accepted
    listener.close()
    return client, server


def test_bytes_arrive_in_order_both_ways(bench: Bench) -> None:
    async def scenario() -> None:
        client, server = await pair(bench)
        assert client.transport is not None
        assert server.transport is not None
        data = bytes(range(256)) * 4000
        for start in range(0, len(data), 10_000):
            client.transport.write(data[start : start + 10_000])
        server.transport.writelines([b"one", b"two"])
        await server.wait_bytes(len(data))
        await client.wait_bytes(6)
        assert server.data == data
        assert client.data == b"onetwo"
        client.transport.close()
        assert await server.lost is None
        assert await client.lost is None

    bench.run(scenario())


def test_bytes_written_before_close_arrive(bench: Bench) -> None:
    async def scenario() -> None:
        client, server = await pair(bench)
        assert client.transport is not None
        client.transport.write(b"x" * 500_000)
        client.transport.close()
        assert client.transport.is_closing()
        assert await server.lost is None
        assert len(server.data) == 500_000

    bench.run(scenario())


def test_abort_is_noticed(bench: Bench) -> None:
    async def scenario() -> None:
        client, server = await pair(bench)
        assert client.transport is not None
        client.transport.abort()
        await client.lost
        await server.lost

    bench.run(scenario())


def test_a_connection_without_listener_is_refused(bench: Bench) -> None:
    async def scenario() -> None:
        listener, port = await bench.world.network.listen(Peer, "127.0.0.1", 0)
        listener.close()
        await asyncio.sleep(0.01)
        with pytest.raises(ConnectionRefusedError):
            await bench.world.network.connect(Peer, "127.0.0.1", port)

    bench.run(scenario())


def test_a_port_is_bound_only_once(bench: Bench) -> None:
    async def scenario() -> None:
        listener, port = await bench.world.network.listen(Peer, "127.0.0.1", 0)
        with pytest.raises(OSError):
            await bench.world.network.listen(Peer, "127.0.0.1", port)
        listener.close()

    bench.run(scenario())


def test_a_paused_reader_pauses_its_writer(bench: Bench) -> None:
    async def scenario() -> None:
        client, server = await pair(bench)
        assert client.transport is not None
        assert server.transport is not None
        server.transport.pause_reading()
        total = 32 << 20
        client.transport.write(bytes(total))
        await asyncio.sleep(0.05)
        assert client.paused == 1
        assert len(server.data) == 0
        server.transport.resume_reading()
        await client.resumed.wait()
        await server.wait_bytes(total)
        assert client.transport.get_write_buffer_size() == 0
        client.transport.close()
        await server.lost

    bench.run(scenario())


def test_a_protocol_with_its_own_buffer(bench: Bench) -> None:
    async def scenario() -> None:
        made: asyncio.Future[BufferedPeer] = asyncio.get_running_loop().create_future()

        def factory() -> BufferedPeer:
            peer = BufferedPeer()
            made.set_result(peer)
            return peer

        listener, port = await bench.world.network.listen(factory, "127.0.0.1", 0)
        client = cast(Peer, await bench.world.network.connect(Peer, "127.0.0.1", port))
        assert client.transport is not None
        data = bytes(range(256)) * 100
        client.transport.write(data)
        client.transport.close()
        server = await made
        await server.done
        assert server.data == data
        listener.close()

    bench.run(scenario())


def test_clock_and_entropy(bench: Bench) -> None:
    world = bench.world
    assert world.clock.wall_ms() > 1_700_000_000_000
    first = world.clock.monotonic_ms()
    assert world.clock.monotonic_ms() >= first
    assert len(world.entropy.bytes(16)) == 16
    assert world.entropy.bytes(16) != world.entropy.bytes(16)
    assert {world.entropy.below(3) for _ in range(200)} == {0, 1, 2}

"""Streams between two processes: bounded by credit, ended by either side, and by a broken connection."""

from __future__ import annotations

import asyncio

import pytest

from longhall.cluster.rpc.stream import OutgoingStream
from longhall.errors import Code, LonghallError
from tests.cluster.rpc.test_leader_client import Pair, _until, pair


class Source:
    """Serves numbers, as far as there is credit."""

    def __init__(self, two: Pair) -> None:
        self.streams: list[OutgoingStream] = []
        self.sent = 0
        self.closed = 0
        two.peers[1].serve_stream("numbers", self._open)

    def _open(self, node: int, body: bytes, stream: OutgoingStream) -> None:
        if body == b"refuse":
            raise LonghallError(Code.STORAGE_FULL, "no room")
        self.streams.append(stream)
        stream.watch(lambda: self._send(stream), self._close)
        self._send(stream)

    def _send(self, stream: OutgoingStream) -> None:
        while stream.send(b"%d" % self.sent):
            self.sent += 1

    def _close(self) -> None:
        self.closed += 1


async def test_a_slow_receiver_holds_back_its_own_stream() -> None:
    async with pair() as two:
        source = Source(two)
        stream = await two.peers[2].open_stream(1, "numbers", b"", 4)
        await _until(lambda: source.sent == 4)
        await asyncio.sleep(0.05)
        assert source.sent == 4
        assert [await anext(stream) for _ in range(10)] == [b"%d" % number for number in range(10)]
        assert 10 < source.sent <= 14
        stream.close()
        await _until(lambda: source.closed == 1)
        assert not source.streams[0].send(b"more")


async def test_a_stream_ends_with_its_error() -> None:
    async with pair() as two:
        source = Source(two)
        stream = await two.peers[2].open_stream(1, "numbers", b"", 1)
        assert await anext(stream) == b"0"
        await _until(lambda: bool(source.streams))
        source.streams[0].end(LonghallError(Code.NOT_READY, "not now"))
        with pytest.raises(LonghallError) as ended:
            [item async for item in stream]
        assert ended.value.code is Code.NOT_READY
        for verb, body, code in (("numbers", b"refuse", Code.STORAGE_FULL), ("letters", b"", Code.NOT_READY)):
            refused = await two.peers[2].open_stream(1, verb, body, 1)
            with pytest.raises(LonghallError) as ended:
                await anext(refused)
            assert ended.value.code is code


async def test_a_stream_ends_with_its_connection() -> None:
    async with pair() as two:
        source = Source(two)
        stream = await two.peers[2].open_stream(1, "numbers", b"", 2)
        await _until(lambda: source.sent == 2)
        await two.peers[1].close()
        with pytest.raises(ConnectionError):
            [item async for item in stream]

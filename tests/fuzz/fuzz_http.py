"""Fuzz target: whatever bytes come to the HTTP port, it answers in order, refuses, or waits for more."""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import cast

from longhall.console.http import HttpServer, Response, plain
from longhall.front.http import HttpConnection
from longhall.front.http_request import HEAD_BYTES_MAX

_GET = b"GET /?a=b HTTP/1.1\r\nHost: x\r\n"
SEEDS = [
    b"\xff" + _GET + b"\r\n",
    b"\x03" + _GET + b"Connection: close\r\n\r\n" + _GET + b"\r\n",
    b"\xff" + _GET + b"Content-Length: 2\r\n\r\n{}",
    b"\x07" + _GET + b"Transfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n2;x=y\r\n{}\r\n0\r\nA: b\r\n\r\n",
    b"\xff" + _GET.replace(b"1.1", b"1.0") + b"Upgrade: h2c\r\n\r\n",
]


class _Transport:
    """As much of a transport as the connection touches."""

    def __init__(self, connection: HttpConnection) -> None:
        self.connection = connection
        self.written = b""
        self.closed = False

    def write(self, data: bytes) -> None:
        assert not self.closed
        self.written += data

    def close(self) -> None:
        self.closed = True

    abort = write_eof = close

    def set_write_buffer_limits(self, high: int) -> None: ...

    def get_extra_info(self, name: str) -> object:
        return ("127.0.0.1", 1)

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...


async def _ok() -> Response:
    return plain(HTTPStatus.OK, "ok")


def TestOneInput(data: bytes) -> None:
    """The first byte is the size of the pieces in which the rest arrives."""
    if data:
        _LOOP.run_until_complete(_drive(data[1:], data[0] + 1))


async def _drive(data: bytes, piece_bytes: int) -> None:
    server = HttpServer({"/": _ok})
    connection = HttpConnection(server, asyncio.get_running_loop())
    transport = _Transport(connection)
    connection.connection_made(cast(asyncio.Transport, transport))
    taken = 0
    for at in range(0, len(data), piece_bytes):
        if transport.closed:
            break
        connection.data_received(data[at : at + piece_bytes])
        taken += piece_bytes
        for _ in range(4 if b"\n" in data[at : at + piece_bytes] else 0):  # A head ends in a line end.
            await asyncio.sleep(0)
        assert transport.written.count(b"HTTP/1.1 ") <= data[:taken].count(b"\n") + 1
        # Every answer pays for a head, so silence has a bound.
        assert transport.closed or transport.written or taken <= HEAD_BYTES_MAX + piece_bytes
    assert not transport.written or transport.written.startswith(b"HTTP/1.1 ")
    connection.connection_lost(None)
    assert server.connection_count == 0


_LOOP = asyncio.new_event_loop()

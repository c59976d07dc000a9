"""Requests in rounds on bare sockets: one request on each connection, then the answer of each.

A client library decides itself what it sends in one request. Here every round is the same bytes, so that what a broker
does for them can be counted and compared.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Final

from bench.peers.node import receive_exactly
from longhall.records.batch import build_batch
from longhall.records.record import Record

_PRODUCE_VERSION: Final = 7
_FETCH_VERSION: Final = 4
_ANSWER_SECONDS_MAX: Final = 120.0

Read = Callable[[socket.socket], bytes]


class Rounds:
    """Connections to one door."""

    def __init__(self, address: str, connections: int, read: Read) -> None:
        self._stack = ExitStack()
        self._read = read
        host, _, port = address.rpartition(":")
        self._sockets = [
            self._stack.enter_context(socket.create_connection((host, int(port)), timeout=_ANSWER_SECONDS_MAX))
            for _ in range(connections)
        ]

    def __enter__(self) -> Rounds:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def ask(self, requests: Sequence[bytes]) -> list[bytes]:
        """Send one request on each connection, and return the answers in their order."""
        for each, request in zip(self._sockets, requests, strict=True):
            each.sendall(request)
        return [self._read(each) for each in self._sockets]


def read_kafka(connection: socket.socket) -> bytes:
    (length,) = struct.unpack(">i", receive_exactly(connection, 4))
    return receive_exactly(connection, length)


def read_http(connection: socket.socket) -> bytes:
    """The body of an answer with a Content-Length; any status but 2xx is an error."""
    head = b""
    while b"\r\n\r\n" not in head:
        piece = connection.recv(65536)
        assert piece, "the server closed the connection"
        head += piece
    head, _, body = head.partition(b"\r\n\r\n")
    fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:])
    body += receive_exactly(connection, int(fields.get(b"content-length", b"0")) - len(body))
    assert head.split(b" ", 2)[1].startswith(b"2"), (head, body)
    return body


def post(path: str, body: bytes) -> bytes:
    lines = [
        f"POST {path} HTTP/1.1",
        "Host: 127.0.0.1",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
    ]
    return "\r\n".join([*lines, "", ""]).encode() + body


def produce(topic: str, messages: int, size_bytes: int) -> bytes:
    """A Produce request with one batch for partition 0.

    int16 key = 0 | int16 version | int32 correlation | string client | string null transaction | int16 acks = -1
    | int32 timeout_ms | int32 1 topic | string name | int32 1 partition | int32 partition | bytes records
    """
    records = [Record(-1, 1_790_000_000_000, None, bytes(size_bytes)) for _ in range(messages)]
    batch = build_batch(records)
    body = struct.pack(">hhih5s", 0, _PRODUCE_VERSION, 1, 5, b"bench") + struct.pack(">hhi", -1, -1, 30_000)
    body += struct.pack(f">ih{len(topic)}siii", 1, len(topic), topic.encode(), 1, 0, len(batch)) + batch
    return struct.pack(">i", len(body)) + body


def fetch(topic: str, offset: int, bytes_max: int) -> bytes:
    """A Fetch request for partition 0, see `bench.load.fetch` for its layout."""
    body = struct.pack(">hhih5s", 1, _FETCH_VERSION, 1, 5, b"bench")
    body += struct.pack(">iiiib", -1, 500, 1, bytes_max, 0)
    body += struct.pack(f">ih{len(topic)}siiqi", 1, len(topic), topic.encode(), 1, 0, offset, bytes_max)
    return struct.pack(">i", len(body)) + body

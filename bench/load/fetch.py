"""Fetches at chosen offsets on a bare socket, one at a time.

A client library prefetches and queues; the cost of one fetch is only visible without one. Fetch version 4 is used
because every broker with record batches supports it. Layout of the request after the length:

    int16 key = 1 | int16 version = 4 | int32 correlation | int16 -1 (no client id)
    | int32 replica = -1 | int32 wait_ms | int32 bytes_min | int32 bytes_max | int8 isolation
    | int32 1 topic | string name | int32 1 partition | int32 partition | int64 offset | int32 partition_bytes_max
"""

from __future__ import annotations

import random
import socket
import struct
import time

from bench.peers.node import receive_exactly


class FetchFailed(RuntimeError):
    """The broker refused a fetch or answered with other records."""


def random_fetch_latencies_ns(
    address: str, topic: str, *, end_offset: int, count: int, bytes_max: int = 16384, seed: int = 1
) -> list[int]:
    """Fetch `count` times at offsets spread over the whole log, and check that each answer holds its offset."""
    host, _, port = address.rpartition(":")
    choose = random.Random(seed)
    samples = []
    with socket.create_connection((host, int(port)), timeout=30) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for number in range(count):
            offset = choose.randrange(end_offset)
            request = _request(number, topic, offset, bytes_max)
            began = time.monotonic_ns()
            connection.sendall(request)
            (length,) = struct.unpack(">i", receive_exactly(connection, 4))
            reply = receive_exactly(connection, length)
            samples.append(time.monotonic_ns() - began)
            _check(reply, topic, offset)
    return samples


def _request(correlation: int, topic: str, offset: int, bytes_max: int) -> bytes:
    name = topic.encode()
    body = struct.pack(">hhih", 1, 4, correlation, -1)
    body += struct.pack(">iiiib", -1, 500, 1, bytes_max, 0)
    body += struct.pack(f">ih{len(name)}s", 1, len(name), name)
    body += struct.pack(">iiqi", 1, 0, offset, bytes_max)
    return struct.pack(">i", len(body)) + body


def _check(reply: bytes, topic: str, offset: int) -> None:
    """The first batch has to contain the requested offset, or to begin before it and end behind it."""
    at = 4 + 4 + 4 + 2 + len(topic.encode()) + 4
    _partition, error, _high, _stable, aborted = struct.unpack_from(">ihqqi", reply, at)
    if error:
        raise FetchFailed(f"offset {offset}: the broker answered error {error}")
    at += 26 + 16 * max(0, aborted)
    (size_bytes,) = struct.unpack_from(">i", reply, at)
    if size_bytes < 61:
        raise FetchFailed(f"offset {offset}: only {size_bytes} bytes arrived")
    (base,) = struct.unpack_from(">q", reply, at + 4)
    (last_delta,) = struct.unpack_from(">i", reply, at + 4 + 23)
    if not base <= offset <= base + last_delta:
        raise FetchFailed(f"offset {offset}: a batch of {base} to {base + last_delta} arrived")

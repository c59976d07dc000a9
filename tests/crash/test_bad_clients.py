"""Clients that stall, flood, send wrong lengths or garbage: other clients go on, and the node's memory stays small."""

from __future__ import annotations

import os
import random
import socket
import struct
import threading
from collections.abc import Callable
from contextlib import closing, suppress

import psutil
import pytest

from soak.node import Node
from tests.clients.librdkafka import new_producer, read_all, send
from tests.crash.conftest import NewNode

STALLED = 200
GROWTH_BYTES_MAX = 200 << 20
API_VERSIONS = struct.pack(">hhih", 18, 0, 1, -1)


def connect(node: Node) -> socket.socket:
    host, port = node.bootstrap.rsplit(":", 1)
    return socket.create_connection((host, int(port)), timeout=5)


def push(node: Node, *frames: bytes) -> None:
    """Send and close; the node may close first."""
    with suppress(OSError), closing(connect(node)) as connection:
        for frame in frames:
            connection.sendall(frame)
        connection.settimeout(0.2)
        while connection.recv(65536):
            pass


def framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def random_bytes(node: Node) -> None:
    source = random.Random(1)
    for size in (1, 3, 4, 5, 100, 10_000, 1_000_000):
        push(node, source.randbytes(size))


def lying_lengths(node: Node) -> None:
    for length in (0, -1, -(2**31), 1, 3, 7, 2**31 - 1, 2**30, 101 << 20):
        push(node, struct.pack(">i", length), b"\x00" * 100)


def unknown_requests(node: Node) -> None:
    for key, version in ((9999, 0), (-1, 0), (0, 99), (1, -5), (18, 99), (3, 14), (32767, 32767)):
        push(node, framed(struct.pack(">hhih", key, version, 7, -1) + b"\x00" * 30))


def truncated_and_mutated_requests(node: Node) -> None:
    """Every request key with random bodies: their counts and lengths have any value."""
    source = random.Random(2)
    for key in range(80):
        for version in range(4):
            body = struct.pack(">hhih", key, version, 7, -1) + source.randbytes(source.randrange(0, 60))
            push(node, framed(body))
        huge_count = struct.pack(">hhih", key, 0, 7, -1) + struct.pack(">i", 2**31 - 1) * 4
        push(node, framed(huge_count))


def requests_without_reading(node: Node) -> None:
    """Send requests and never read an answer: the memory for its answers must stay bounded."""
    with suppress(OSError), closing(connect(node)) as connection:
        connection.settimeout(1.0)
        for _ in range(2000):
            connection.sendall(framed(API_VERSIONS) * 100)


MISDEEDS = [random_bytes, lying_lengths, unknown_requests, truncated_and_mutated_requests, requests_without_reading]


@pytest.fixture
def node(new_node: NewNode) -> Node:
    made = new_node()
    made.start()
    return made


@pytest.mark.timeout(120)
@pytest.mark.parametrize("misdeed", MISDEEDS, ids=lambda misdeed: misdeed.__name__.replace("_", " "))
def test_other_clients_are_unaffected(node: Node, misdeed: Callable[[Node], None]) -> None:
    producer = new_producer(node.bootstrap)
    send(producer, "topic", [b"before"])
    resident = psutil.Process(node.pid).memory_info().rss
    offender = threading.Thread(target=misdeed, args=(node,), daemon=True)
    offender.start()
    sent = 1
    while offender.is_alive():
        send(producer, "topic", [b"meanwhile"])
        sent += 1
    send(producer, "topic", [b"after"])
    assert len(read_all(node.bootstrap, "topic")) == sent + 1
    assert node.running
    assert psutil.Process(node.pid).memory_info().rss - resident < GROWTH_BYTES_MAX
    assert "Traceback" not in node.log_text(), node.log_tail()


@pytest.mark.timeout(120)
def test_stalled_connections_cost_little(node: Node) -> None:
    """Some connections send nothing, some begin a frame that announces much and never finish it."""
    producer = new_producer(node.bootstrap)
    send(producer, "topic", [b"before"])
    resident = psutil.Process(node.pid).memory_info().rss
    stalled = [connect(node) for _ in range(STALLED)]
    for number, connection in enumerate(stalled):
        if number % 2:
            connection.sendall(struct.pack(">i", 90 << 20) + b"\x00\x00\x00\x09" + os.urandom(1000))
    values = [str(n).encode() for n in range(50)]
    for value in values:
        send(producer, "topic", [value])
    assert [m.value() for m in read_all(node.bootstrap, "topic")] == [b"before", *values]
    assert psutil.Process(node.pid).memory_info().rss - resident < GROWTH_BYTES_MAX
    for connection in stalled:
        connection.close()
    send(producer, "topic", [b"after"])

"""Clients that announce large requests and send little or nothing: only arrived bytes take memory, and others go on."""

from __future__ import annotations

import os
import socket
import struct
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import suppress

import psutil
import pytest

from longhall.doors.amqp.wire import methods
from longhall.doors.amqp.wire.frames import method_frame
from longhall.exchanges.field_table import encode_table
from soak.node import Node
from tests.clients.librdkafka import new_producer, read_all, send
from tests.crash.conftest import NewNode

MEMORY_BYTES = 32 << 20
MEMORY_SHARE = 1.25
SOCKETS = 31
HEAD = struct.pack(">i", MEMORY_BYTES - (64 << 10))
HALF_BYTES = 4 << 20
PATIENCE = {"message.timeout.ms": 12_000}  # Incomplete requests once held the memory for 30 s.
LARGE = os.urandom(100_000)
FEW = 20
BESIDES_BYTES = 8 << 20  # Memory that a node allocates in its first seconds anyway: caches, modules, free lists.
API_VERSIONS = struct.pack(">ihhih", 10, 18, 0, 1, -1)


def connect(address: str) -> socket.socket:
    host, port = address.rsplit(":", 1)
    return socket.create_connection((host, int(port)), timeout=10)


def kafka_heads(node: Node) -> socket.socket:
    connection = connect(node.bootstrap)
    connection.sendall(HEAD)
    return connection


def kafka_head_beside_a_fetch(node: Node) -> socket.socket:
    """A connection with a fetch that waits for a minute: while an answer is due a connection is not idle."""
    partition = struct.pack(">iqi", 0, 1, 1 << 20)
    topic = struct.pack(">i", 1) + struct.pack(">h", 5) + b"topic" + struct.pack(">i", 1) + partition
    fetch = struct.pack(">hhih", 1, 4, 7, -1) + struct.pack(">iiiib", -1, 60_000, 1 << 20, 1 << 20, 0) + topic
    connection = connect(node.bootstrap)
    connection.sendall(struct.pack(">i", len(fetch)) + fetch + HEAD)
    return connection


def kafka_frames_half_sent(node: Node) -> socket.socket:
    connection = connect(node.bootstrap)
    connection.sendall(API_VERSIONS)
    connection.recv(4096)  # From here on it is authenticated.
    connection.settimeout(0.1)
    with suppress(OSError):
        connection.sendall(HEAD + bytes(HALF_BYTES))
    return connection


def sqs_bodies(node: Node) -> socket.socket:
    connection = connect(node.sqs)
    connection.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 16777216\r\n\r\n")
    return connection


def http_bodies(node: Node) -> socket.socket:
    connection = connect(node.http)
    connection.sendall(b"POST /v1/queues/q/messages HTTP/1.1\r\nHost: x\r\nContent-Length: 16777216\r\n\r\n")
    return connection


def amqp_connection(node: Node) -> socket.socket:
    """A connection with an open channel."""
    connection = connect(node.amqp)
    connection.sendall(b"AMQP\0\0\x09\x01")
    start_ok = method_frame(0, methods.CONNECTION_START_OK, encode_table({}), "PLAIN", b"\0guest\0guest", "en_US")
    for frame in (
        start_ok,
        method_frame(0, methods.CONNECTION_TUNE_OK, 0, 131_072, 0)
        + method_frame(0, methods.CONNECTION_OPEN, "/", "", False),
        method_frame(1, methods.CHANNEL_OPEN, ""),
    ):
        assert connection.recv(4096)
        connection.sendall(frame)
    assert connection.recv(4096)
    connection.sendall(method_frame(1, methods.BASIC_PUBLISH, 0, "", "any", False, False))
    header = struct.pack(">HHQH", 60, 0, 16 << 20, 0)
    connection.sendall(struct.pack(">BHI", 2, 1, len(header)) + header + b"\xce")
    return connection


def amqp_bodies(node: Node) -> socket.socket:
    return amqp_connection(node)


def amqp_bodies_half_sent(node: Node) -> socket.socket:
    """Whole frames of a body that never ends, and a last frame that is not whole."""
    connection = amqp_connection(node)
    connection.settimeout(0.1)
    part = bytes(131_064)
    with suppress(OSError):
        for _ in range(HALF_BYTES // len(part)):
            connection.sendall(struct.pack(">BHI", 3, 1, len(part)) + part + b"\xce")
        connection.sendall(struct.pack(">BHI", 3, 1, len(part)) + part[:-1])
    return connection


def stomp_bodies_half_sent(node: Node) -> socket.socket:
    connection = connect(node.stomp)
    connection.sendall(b"CONNECT\naccept-version:1.2\nhost:/\n\n\0")
    assert connection.recv(4096).startswith(b"CONNECTED")
    connection.settimeout(0.1)
    with suppress(OSError):
        connection.sendall(b"SEND\ndestination:/queue/any\ncontent-length:%d\n\n" % (4 << 20) + bytes(2 << 20))
    return connection


def websocket_messages_half_sent(node: Node) -> socket.socket:
    """A client that has not logged in announces a large message."""
    connection = connect(node.stomp_websocket)
    upgrade = "GET /ws HTTP/1.1", "Host: 127.0.0.1", "Upgrade: websocket", "Connection: Upgrade"
    more = "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==", "", ""
    connection.sendall("\r\n".join((*upgrade, *more)).encode())
    assert connection.recv(4096).startswith(b"HTTP/1.1 101")
    connection.settimeout(0.1)
    with suppress(OSError):
        connection.sendall(b"\x82\xff" + struct.pack(">Q", 4 << 20) + b"\0\0\0\0" + bytes(2 << 20))
    return connection


@pytest.fixture
def node(new_node: NewNode) -> Iterator[Node]:
    made = new_node(options=["--set", f"memory_bytes={MEMORY_BYTES}", "--set", f"connections_max={10 * FEW}"])
    made.start()
    yield made
    assert made.running
    assert "Traceback" not in made.log_text(), made.log_tail()


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "announce",
    [
        kafka_heads,
        kafka_head_beside_a_fetch,
        kafka_frames_half_sent,
        sqs_bodies,
        http_bodies,
        amqp_bodies,
        websocket_messages_half_sent,
    ],
    ids=lambda announce: announce.__name__.replace("_", " "),
)
def test_announced_bytes_hold_no_memory(node: Node, announce: Callable[[Node], socket.socket]) -> None:
    producer = new_producer(node.bootstrap, **PATIENCE)
    send(producer, "topic", [b"before"])
    resident = psutil.Process(node.pid).memory_info().rss
    offenders = [announce(node) for _ in range(SOCKETS)]
    for _ in range(5):
        send(producer, "topic", [LARGE])
    grown = psutil.Process(node.pid).memory_info().rss - resident
    assert grown <= MEMORY_SHARE * MEMORY_BYTES + BESIDES_BYTES
    assert len(read_all(node.bootstrap, "topic")) == 6
    for offender in offenders:
        offender.close()


@pytest.mark.timeout(60)
@pytest.mark.parametrize("announce", [amqp_bodies_half_sent, stomp_bodies_half_sent])
def test_bodies_half_sent_count_as_they_arrive(node: Node, announce: Callable[[Node], socket.socket]) -> None:
    """Also the memory of bodies that were given up for others is free at once, while their clients stay connected."""
    producer = new_producer(node.bootstrap, **PATIENCE)
    send(producer, "topic", [b"before"])
    resident = psutil.Process(node.pid).memory_info().rss
    offenders = [announce(node) for _ in range(SOCKETS)]
    for _ in range(5):
        send(producer, "topic", [LARGE])
    grown = psutil.Process(node.pid).memory_info().rss - resident
    assert grown <= MEMORY_SHARE * MEMORY_BYTES + BESIDES_BYTES
    with urllib.request.urlopen(f"http://{node.http}/metrics", timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    (used,) = (float(line.split()[1]) for line in lines if line.startswith("longhall_memory_used_bytes "))
    assert HALF_BYTES // 2 < used <= MEMORY_SHARE * MEMORY_BYTES
    assert len(read_all(node.bootstrap, "topic")) == 6
    for offender in offenders:
        offender.close()


@pytest.mark.timeout(60)
def test_connections_beyond_the_bound_are_counted_and_said_at_every_door(new_node: NewNode) -> None:
    node = new_node(options=["--set", f"connections_max={FEW}"])
    node.start()
    held = [connect(address) for address in (node.bootstrap, node.sqs) for _ in range(2 * FEW)]
    for connection in held[FEW : 2 * FEW]:
        assert connection.recv(1) == b""  # The node has closed it.
    for connection in held[3 * FEW :]:
        assert connection.recv(12) == b"HTTP/1.1 503"
    with urllib.request.urlopen(f"http://{node.http}/metrics", timeout=10) as answer:
        metrics = answer.read().decode()
    assert f'longhall_door_connections_refused_total{{door="kafka"}} {FEW}\n' in metrics
    assert f'longhall_door_connections_refused_total{{door="sqs"}} {FEW}\n' in metrics
    assert f"longhall_connections_refused_total {FEW}\n" in metrics

    def said() -> list[tuple[bool, bool]]:
        lines = [line for line in node.log_text().splitlines() if "a connection was refused" in line]
        return [("door=kafka" in line, "door=sqs" in line) for line in lines]

    deadline = time.monotonic() + 20
    while len(said()) < 2 and time.monotonic() < deadline:  # The log is written by a thread.
        time.sleep(0.05)
    assert said() == [(True, False), (False, True)]
    for connection in held:
        connection.close()

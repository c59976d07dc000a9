"""Tenants without limits take turns at the doors of a busy node: one floods it, others are served, nothing is lost."""

from __future__ import annotations

import json
import socket
import threading
import urllib.request
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pika
import pytest

from soak.node import Node
from tests.clients.accounts import PASSWORD, Administrator
from tests.clients.serving import served

LOUD, QUIET = "loud", "quiet"
CONNECTIONS, PIPELINED, ROUNDS = 20, 16, 5


@pytest.fixture
def hall(tmp_path: Path) -> Iterator[tuple[Node, Administrator]]:
    with served(tmp_path / "data") as node:
        administrator = Administrator(node.http)
        for name in (LOUD, QUIET):
            administrator.ask("POST", "tenants", {"name": name})
            administrator.add_user(name, tenant=name)
            administrator.ask("POST", "queues", {"name": name})
        yield node, administrator


def amqp(node: Node, user: str) -> pika.BlockingConnection:
    host, port = node.amqp.rsplit(":", 1)
    return pika.BlockingConnection(
        pika.ConnectionParameters(host, int(port), credentials=pika.PlainCredentials(user, PASSWORD))
    )


def requests_of_loud() -> bytes:
    shown = b64encode(f"{LOUD}:{PASSWORD}".encode()).decode()
    body = json.dumps({"messages": [{"body": "x"}]})
    head = f"POST /api/v1/queues/{LOUD}/messages HTTP/1.1\r\nHost: x\r\nAuthorization: Basic {shown}\r\n"
    return f"{head}Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode() * PIPELINED


def answers_of(connection: socket.socket) -> int:
    """Read until all pipelined requests are answered; returns how many were accepted."""
    received = b""
    while received.count(b"HTTP/1.1 ") < PIPELINED or not received.endswith(b"}"):
        more = connection.recv(65536)
        assert more, received[-500:]
        received += more
    return received.count(b"HTTP/1.1 200")


def held_back(node: Node) -> float:
    with urllib.request.urlopen(f"http://{node.http}/metrics", timeout=30) as response:
        lines = response.read().decode().splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.startswith("longhall_connections_held_back_total "))


def waiting(administrator: Administrator, queue: str) -> int:
    found: int = administrator.ask("GET", f"queues/{queue}")["depth"]["available"]
    return found


def test_a_tenant_that_floods_one_door_waits_for_its_turns_and_others_at_other_doors_are_served(
    hall: tuple[Node, Administrator],
) -> None:
    node, administrator = hall
    host, port = node.http.rsplit(":", 1)
    is_over = threading.Event()
    published: list[Any] = []

    def publish() -> None:
        with amqp(node, QUIET) as connection:
            channel = connection.channel()
            channel.confirm_delivery()
            while not is_over.is_set():
                channel.basic_publish("", QUIET, str(len(published)).encode())  # Raises if it is not confirmed.
                published.append(None)

    quiet = threading.Thread(target=publish)
    quiet.start()
    shown = b64encode(f"{LOUD}:{PASSWORD}".encode()).decode()  # A first login: the node remembers a right password.
    administrator.ask("POST", f"queues/{LOUD}/messages", {"messages": [{"body": "x"}]}, f"Basic {shown}")
    accepted = 1
    flood = [socket.create_connection((host, int(port)), timeout=60) for _ in range(CONNECTIONS)]
    try:
        for _ in range(ROUNDS):
            for connection in flood:
                connection.sendall(requests_of_loud())
            accepted += sum(answers_of(connection) for connection in flood)
    finally:
        is_over.set()
        quiet.join()
        for connection in flood:
            connection.close()
    assert accepted == 1 + CONNECTIONS * PIPELINED * ROUNDS
    assert published
    assert held_back(node) > 0, "the calls of the loud tenant had to wait"
    assert waiting(administrator, LOUD) == accepted
    assert waiting(administrator, QUIET) == len(published)
    with amqp(node, QUIET) as connection:
        channel = connection.channel()
        bodies = [channel.basic_get(QUIET, auto_ack=True)[2] for _ in published]
    assert bodies == [str(number).encode() for number in range(len(published))]

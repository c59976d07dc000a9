"""A node for the tests of the STOMP door, or any other server that speaks STOMP as RabbitMQ does.

`LONGHALL_TEST_STOMP=host:port` points the tests at a server that runs already.
"""

from __future__ import annotations

import os
import queue
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import stomp
from stomp.utils import Frame

from soak.node import Node
from tests.clients.serving import served
from tests.left_out import leave_out

WAIT_S = 20.0
VERSIONS = {"1.0": stomp.Connection10, "1.1": stomp.Connection11, "1.2": stomp.Connection12}


class Client(stomp.ConnectionListener):  # type: ignore[misc]
    """A connection of stomp.py, with everything that came to it."""

    def __init__(self, connection: Any, version: str) -> None:
        self.connection = connection
        self.version = version
        self.messages: queue.Queue[Frame] = queue.Queue()
        self.errors: queue.Queue[Frame] = queue.Queue()
        self.receipts: queue.Queue[str] = queue.Queue()
        self.ends: queue.Queue[bool] = queue.Queue()
        self.connected: dict[str, str] = {}
        self._number = 0
        connection.set_listener("client", self)

    def on_connected(self, frame: Frame) -> None:
        self.connected = frame.headers

    def on_message(self, frame: Frame) -> None:
        self.messages.put(frame)

    def on_error(self, frame: Frame) -> None:
        self.errors.put(frame)

    def on_receipt(self, frame: Frame) -> None:
        self.receipts.put(frame.headers["receipt-id"])

    def on_disconnected(self) -> None:
        self.ends.put(True)

    def connect(self, user: str = "guest", password: str = "guest", **parameters: Any) -> None:
        self.connection.connect(user, password, wait=True, **parameters)

    def send(self, destination: str, body: str | bytes, **headers: str) -> None:
        """Send a message; returns when it is confirmed."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        receipt = self._receipt()
        self.connection.send(destination, body, headers={**named, "receipt": receipt})
        self.wait_receipt(receipt)

    def subscribe(self, destination: str, id: str = "1", ack: str = "auto", **headers: str) -> None:
        """Subscribe; returns when it is done."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        receipt = self._receipt()
        self.connection.subscribe(destination, id=id, ack=ack, headers={**named, "receipt": receipt})
        self.wait_receipt(receipt)

    def unsubscribe(self, id: str = "1", **headers: str) -> None:
        receipt = self._receipt()
        self.connection.send_frame("UNSUBSCRIBE", {"id": id, "receipt": receipt, **headers})
        self.wait_receipt(receipt)

    def frame(self, command: str, **headers: str) -> None:
        """Send any frame; returns when it is done."""
        receipt = self._receipt()
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self.connection.send_frame(command, {**named, "receipt": receipt})
        self.wait_receipt(receipt)

    def ack(self, message: Frame, command: str = "ACK", **headers: str) -> None:
        """Acknowledge a message in the way of the version; returns when that is durable."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        if self.version == "1.2":
            self.frame(command, id=message.headers["ack"], **named)
        else:
            subscription = message.headers["subscription"]
            self.frame(command, message_id=message.headers["message-id"], subscription=subscription, **named)

    def nack(self, message: Frame, **headers: str) -> None:
        self.ack(message, "NACK", **headers)

    def take(self) -> Frame:
        """The next message."""
        return self.messages.get(timeout=WAIT_S)

    def bodies(self, count: int) -> list[str]:
        return [self.take().body for _ in range(count)]

    def error(self) -> Frame:
        return self.errors.get(timeout=WAIT_S)

    def wait_receipt(self, receipt: str) -> None:
        while self.receipts.get(timeout=WAIT_S) != receipt:
            pass

    def has_nothing(self) -> bool:
        """True if no message is there after everything that was sent before is handled."""
        self.frame("BEGIN", transaction="t-nothing")
        self.frame("ABORT", transaction="t-nothing")
        return self.messages.empty()

    def _receipt(self) -> str:
        self._number += 1
        return f"receipt-{self._number}"


Connect = Callable[..., Client]


@pytest.fixture(scope="session")
def hall(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node | None]:
    """The node under test; None if the tests use a running server."""
    if os.environ.get("LONGHALL_TEST_STOMP"):
        yield None
        return
    with served(tmp_path_factory.mktemp("stomp") / "data") as running:
        yield running


@pytest.fixture
def node(hall: Node | None) -> Node:
    """The node, for tests of what other servers do not have."""
    if hall is None:
        leave_out("LONGHALL_TEST_STOMP names another server")
    assert hall is not None
    return hall


@pytest.fixture
def address(hall: Node | None) -> tuple[str, int]:
    """Host and port of the door; of another host each time if the node is a cluster."""
    text = os.environ.get("LONGHALL_TEST_STOMP") or (hall.stomp if hall is not None else "")
    host, _, port = text.rpartition(":")
    return host, int(port)


@pytest.fixture
def connect(address: tuple[str, int]) -> Iterator[Connect]:
    """Connections that are closed after the test."""
    opened: list[Client] = []

    def make(version: str = "1.2", *, login: bool = True, **parameters: Any) -> Client:
        client = Client(VERSIONS[version]([address], **parameters), version)
        opened.append(client)
        if login:
            client.connect()
        return client

    yield make
    for client in opened:
        if client.connection.is_connected():
            client.connection.disconnect()


@pytest.fixture(params=list(VERSIONS))
def client(request: pytest.FixtureRequest, connect: Connect) -> Client:
    """A connection of each version."""
    return connect(request.param)

"""A node for the tests of the AMQP door, or any other server that speaks AMQP 0-9-1.

`LONGHALL_TEST_AMQP=host:port` points the tests at a server that runs already, RabbitMQ for example.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from soak.node import Node
from tests.clients.serving import served

Connect = Callable[..., pika.BlockingConnection]


@pytest.fixture(scope="session")
def hall(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node | None]:
    """The node under test; None if the tests use a running server."""
    if os.environ.get("LONGHALL_TEST_AMQP"):
        yield None
        return
    with served(tmp_path_factory.mktemp("amqp") / "data") as running:
        yield running


@pytest.fixture
def address(hall: Node | None) -> tuple[str, int]:
    """Host and port of the door; of another host each time if the node is a cluster."""
    text = os.environ.get("LONGHALL_TEST_AMQP") or (hall.amqp if hall is not None else "")
    host, _, port = text.rpartition(":")
    return host, int(port)


@pytest.fixture
def url(address: tuple[str, int]) -> str:
    return f"amqp://guest:guest@{address[0]}:{address[1]}//"


@pytest.fixture
def connect(address: tuple[str, int]) -> Iterator[Connect]:
    """Connections that are closed after the test."""
    opened: list[pika.BlockingConnection] = []

    def make(**parameters: Any) -> pika.BlockingConnection:
        opened.append(pika.BlockingConnection(pika.ConnectionParameters(*address, **parameters)))
        return opened[-1]

    yield make
    for connection in opened:
        if connection.is_open:
            connection.close()


@pytest.fixture
def channel(connect: Connect) -> BlockingChannel:
    return connect().channel()


@pytest.fixture(scope="module")
def module_url(hall: Node | None) -> str:
    """The address of the door, for programs that run once for a module."""
    text = os.environ.get("LONGHALL_TEST_AMQP") or (hall.amqp if hall is not None else "")
    return f"amqp://guest:guest@{text}"

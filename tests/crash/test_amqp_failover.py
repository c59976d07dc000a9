"""The leader of a queue is killed while an AMQP client of another node consumes: the consumer goes on, with redelivered
set.
"""

from __future__ import annotations

import json
import os
import signal
import time
import urllib.request
from pathlib import Path
from typing import Any, cast

import pika
import pytest
from pika.exceptions import AMQPError, NackError

from tests.clients.serving import Hosts

SECONDS_MAX = 40.0


def _leader(nodes: list[dict[str, Any]], queue: str) -> int:
    """The node that leads the replication group of a queue."""
    with urllib.request.urlopen(f"http://{nodes[0]['http']}/api/v1/cluster/map?prefix={queue}", timeout=10) as answer:
        (row,) = json.load(answer)["partitions"]
    return int(row["leader"])


def _address(node: dict[str, Any]) -> pika.ConnectionParameters:
    host, _, port = str(node["amqp"]).rpartition(":")
    return pika.ConnectionParameters(host, int(port))


def _declare(parameters: pika.ConnectionParameters, queue: str) -> None:
    with pika.BlockingConnection(parameters) as connection:
        connection.channel().queue_declare(queue, durable=True)


def _publish(parameters: pika.ConnectionParameters, queue: str, body: bytes) -> None:
    """Publish until it is confirmed, as a program does that must not lose a message."""
    deadline = time.monotonic() + SECONDS_MAX
    while True:
        try:
            with pika.BlockingConnection(parameters) as connection:
                channel = connection.channel()
                channel.confirm_delivery()
                channel.basic_publish("", queue, body)
                return
        except (AMQPError, NackError):
            assert time.monotonic() < deadline
            time.sleep(0.2)


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_a_consumer_survives_the_leader(tmp_path: Path) -> None:
    with Hosts(tmp_path / "data") as hosts:
        nodes = cast("list[dict[str, Any]]", hosts.ready["nodes"])
        _declare(_address(nodes[0]), "work")
        leader = _leader(nodes, "work")
        parameters = next(_address(node) for node in nodes if node["node"] != leader)
        received: list[tuple[bytes, bool]] = []
        with pika.BlockingConnection(parameters) as connection:
            channel = connection.channel()
            channel.basic_qos(prefetch_count=5)

            def take(_: Any, method: Any, __: Any, body: bytes) -> None:
                received.append((body, method.redelivered))
                if body != b"held" or method.redelivered:
                    channel.basic_ack(method.delivery_tag)

            def wait_for(*expected: tuple[bytes, bool]) -> None:
                deadline = time.monotonic() + SECONDS_MAX
                while not set(expected) <= set(received):
                    assert time.monotonic() < deadline, received
                    connection.process_data_events(0.1)

            channel.basic_consume("work", take)
            _publish(parameters, "work", b"done")
            _publish(parameters, "work", b"held")
            wait_for((b"done", False), (b"held", False))
            channel.queue_declare("work", passive=True)  # Its reply waits for the acknowledgement before it.
            os.kill(next(int(node["pid"]) for node in nodes if node["node"] == leader), signal.SIGKILL)
            _publish(parameters, "work", b"after")
            wait_for((b"held", True), (b"after", False))
            assert (b"done", True) not in received

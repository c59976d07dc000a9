"""A queue moves between replication groups of a real cluster, under boto3 and pika.

Consumers hold leases across the move, and the leader of the hall, which is the source, is killed during the copy.
"""

from __future__ import annotations

import json
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import boto3
import pika
import pytest
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from longhall.coordination.ensemble import Ensemble
from soak.cluster import Cluster, wait_until
from soak.node import COMMAND

QUEUE = "moving-queue"
MESSAGES = 1200
BODY = "x" * 4000
HELD = 30  # Messages that consumers hold during the move.


@pytest.fixture
def cluster_of_groups(ensemble: Ensemble, tmp_path: Path) -> Iterator[Cluster]:
    made = Cluster(
        tmp_path,
        session_ms=3000,
        zookeeper=ensemble,
        path=f"/{tmp_path.name}",
        settings={"copy_bytes_a_second": "524288"},
    )
    try:
        made.start()
        yield made
    finally:
        made.stop()


def _run(cluster: Cluster, *words: str) -> Any:
    """The answer of a command at a node that runs; None if it has none."""
    node = next(node for node in cluster.nodes.values() if node.running)
    command = [*COMMAND, *words, "--http", node.http, "-o", "json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    return json.loads(done.stdout) if done.returncode == 0 else None


def _wait_for(cluster: Cluster, holds: Callable[[Any], bool], *words: str) -> None:
    def is_right() -> bool:
        found = _run(cluster, *words)
        return found is not None and holds(found)

    wait_until(is_right, " ".join(words), cluster.log_tails)


class _Client:
    """boto3 at a node that runs; what fails is repeated, as applications do."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def do(self, work: Callable[[Any, str], Any]) -> Any:
        found: list[Any] = []

        def works() -> bool:
            node = next(node for node in self._cluster.nodes.values() if node.running)
            sqs = boto3.client(
                "sqs",
                endpoint_url=f"http://{node.sqs}",
                region_name="us-east-1",
                aws_access_key_id="test",
                aws_secret_access_key="test",
                config=Config(retries={"max_attempts": 1}, read_timeout=40),
            )
            try:
                found.append(work(sqs, sqs.get_queue_url(QueueName=QUEUE)["QueueUrl"]))
            except (BotoCoreError, ClientError):
                time.sleep(0.2)
                return False
            return True

        wait_until(works, "a request", self._cluster.log_tails)
        return found[-1]

    def send(self, first: int, count: int) -> None:
        """Send messages with numbers, ten at a time. A FIFO queue recognises repeats."""
        for at in range(first, first + count, 10):
            entries = [
                {
                    "Id": str(number),
                    "MessageBody": f"{number} {BODY}",
                    "MessageGroupId": str(number % 50),
                    "MessageDeduplicationId": str(number),
                }
                for number in range(at, at + 10)
            ]
            self.do(partial(_send_batch, entries=entries))

    def receive(self, wait_s: int = 0) -> list[tuple[int, str, str]]:
        """Number, message id and receipt of up to ten messages."""
        got = self.do(
            lambda sqs, url: sqs.receive_message(
                QueueUrl=url, MaxNumberOfMessages=10, VisibilityTimeout=600, WaitTimeSeconds=wait_s
            )
        )
        return [
            (int(one["Body"].split()[0]), one["MessageId"], one["ReceiptHandle"]) for one in got.get("Messages", [])
        ]

    def delete(self, receipt: str) -> None:
        self.do(lambda sqs, url: sqs.delete_message(QueueUrl=url, ReceiptHandle=receipt))

    def extend(self, receipt: str, seconds: int) -> None:
        self.do(
            lambda sqs, url: sqs.change_message_visibility(
                QueueUrl=url, ReceiptHandle=receipt, VisibilityTimeout=seconds
            )
        )


def _send_batch(sqs: Any, url: str, entries: list[dict[str, Any]]) -> None:
    if sqs.send_message_batch(QueueUrl=url, Entries=entries).get("Failed"):
        raise BotoCoreError


def _moves(cluster: Cluster) -> list[dict[str, Any]]:
    address = cluster.nodes[cluster.leader()].http
    with urllib.request.urlopen(f"http://{address}/api/v1/cluster/partition-moves", timeout=60) as answer:
        found: list[dict[str, Any]] = json.load(answer)["moves"]
    return found


def _is_copying(cluster: Cluster) -> bool:
    moves = _moves(cluster)
    assert moves, "the move ended too soon for this test"
    return bool(moves[0]["copied_bytes"])


@pytest.mark.timeout(900)
def test_a_queue_moves_with_its_leases_while_the_source_dies(cluster_of_groups: Cluster) -> None:
    cluster = cluster_of_groups
    _wait_for(cluster, bool, "queue", "create", "starts-the-groups", "--placement", "share")
    _wait_for(cluster, bool, "queue", "create", QUEUE, "--fifo", "--deduplication", "id", "--placement", "hall")
    client = _Client(cluster)
    client.send(0, MESSAGES)
    held: dict[int, tuple[str, str]] = {}
    while len(held) < HELD:
        for number, message_id, receipt in client.receive():
            held[number] = (message_id, receipt)
    _wait_for(cluster, lambda begun: begun["moves"], "queue", "placement", QUEUE, "share")
    wait_until(lambda: _is_copying(cluster), "the copy", cluster.log_tails)
    killed = cluster.nodes[cluster.leader()]
    killed.kill()
    _wait_for(cluster, lambda moves: not moves, "cluster", "moves")
    _wait_for(cluster, lambda rows: "hall" not in [row["group"] for row in rows], "cluster", "map", QUEUE)
    killed.start()
    client.send(0, 50)  # Repeats: the deduplication window has moved.
    client.send(MESSAGES, 100)
    given_back = next(iter(held))
    client.extend(held[given_back][1], 0)
    for number, (_, receipt) in held.items():
        if number != given_back:
            client.delete(receipt)
    settled = held.keys() - {given_back}
    seen: dict[int, str] = {}
    while len(seen) < MESSAGES + 100 - len(settled):
        for number, message_id, receipt in client.receive(wait_s=5):
            assert number not in settled, "a settled message is back"
            assert seen.setdefault(number, message_id) == message_id
            client.delete(receipt)
    assert seen.keys() | settled == set(range(MESSAGES + 100))
    assert seen[given_back] == held[given_back][0]
    assert client.receive(wait_s=2) == []


PREFETCH = 5
TASKS = 60


@pytest.mark.timeout(600)
def test_a_consumer_that_holds_all_it_may_goes_on_after_each_move(cluster_of_groups: Cluster) -> None:
    """It acknowledges what it got before the move, and gets as many from the group that has the queue then."""
    cluster = cluster_of_groups
    _wait_for(cluster, bool, "queue", "create", "starts-the-groups", "--placement", "share")
    _wait_for(cluster, bool, "queue", "create", QUEUE, "--placement", "hall")
    host, port = cluster.nodes[cluster.leader() % len(cluster.nodes) + 1].amqp.rsplit(":", 1)
    connection = pika.BlockingConnection(pika.ConnectionParameters(host, int(port), heartbeat=0))
    channel = connection.channel()
    channel.basic_qos(prefetch_count=PREFETCH)
    for number in range(TASKS):
        channel.basic_publish("", QUEUE, str(number).encode())
    held: list[int] = []
    seen: set[bytes] = set()

    def take(_channel: Any, method: Any, _properties: Any, body: bytes) -> None:
        held.append(method.delivery_tag)
        seen.add(body)

    channel.basic_consume(QUEUE, take)
    _until(connection, lambda: len(held) == PREFETCH)
    for target in ("share", "hall", "share"):
        _wait_for(cluster, lambda begun: begun["moves"], "queue", "placement", QUEUE, target)
        _wait_for(cluster, lambda moves: not moves, "cluster", "moves")
        for _ in range(2):
            for tag in held:
                channel.basic_ack(tag)
            held.clear()
            _until(connection, lambda: len(held) == PREFETCH)
    while len(seen) < TASKS:
        for tag in held:
            channel.basic_ack(tag)
        held.clear()
        _until(connection, lambda: bool(held) or len(seen) == TASKS)
    connection.close()


def _until(connection: pika.BlockingConnection, holds: Callable[[], bool]) -> None:
    ends_s = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < ends_s, "the consumer gets no more messages"
        connection.process_data_events(0.2)

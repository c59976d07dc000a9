"""Partitions of a topic move between replication groups of a real cluster, under unmodified clients.

An idempotent producer, a group that consumes and an SQS consumer go on meanwhile; the leader of the hall, which is the
source of the moves, is killed in the middle.
"""

from __future__ import annotations

import json
import subprocess
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from longhall.coordination.ensemble import Ensemble
from soak.cluster import Cluster, wait_until
from soak.node import COMMAND

PARTITIONS = 2
TOPIC, QUEUE = "moving", "staying"
WAIT_SECONDS = 120.0
BODY = "x" * 2000
FIRST = 2000  # Messages of each partition before the move, so that the copy takes a while.


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
    """The answer of a command at a node that runs; None if it has none. A busy machine may take long."""
    node = next(node for node in cluster.nodes.values() if node.running)
    command = [*COMMAND, *words, "--http", node.http, "-o", "json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    return json.loads(done.stdout) if done.returncode == 0 else None


def _wait_for(cluster: Cluster, holds: Callable[[Any], bool], *words: str) -> None:
    """Run a command again and again until its answer is right."""

    def is_right() -> bool:
        found = _run(cluster, *words)
        return found is not None and holds(found)

    wait_until(is_right, " ".join(words), cluster.log_tails)


class _Traffic:
    """The clients, each in a thread, until `stop`."""

    def __init__(self, cluster: Cluster) -> None:
        self.sent: dict[int, list[str]] = {number: [] for number in range(PARTITIONS)}  # Acknowledged, by partition.
        self.consumed: dict[int, list[tuple[int, str]]] = {number: [] for number in range(PARTITIONS)}
        self.queued: set[str] = set()
        self.received: set[str] = set()
        self.failures: list[str] = []
        self._cluster = cluster
        self._stopping = threading.Event()
        self._sending_is_over = threading.Event()  # `sent` has everything that was acknowledged.
        self._threads = [threading.Thread(target=work) for work in (self._produce, self._consume, self._use_queue)]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._threads[0].join(WAIT_SECONDS)
        self._sending_is_over.set()
        for thread in self._threads:
            thread.join(WAIT_SECONDS)
        assert not any(thread.is_alive() for thread in self._threads)

    def _produce(self) -> None:
        settings = {"enable.idempotence": True, "linger.ms": 5, "message.timeout.ms": 300_000}
        producer = Producer({"bootstrap.servers": self._cluster.bootstrap, **settings})

        def told(error: KafkaError | None, message: Any) -> None:
            if error is not None:
                self.failures.append(f"a message was not accepted: {error}")
            else:
                self.sent[message.partition()].append(message.value().decode())

        number = 0
        while not self._stopping.is_set():
            for partition in range(PARTITIONS):
                producer.produce(TOPIC, f"{number} {BODY}", partition=partition, on_delivery=told)
            number += 1
            if number > FIRST:
                producer.poll(0)
                time.sleep(0.05)  # Slower than the copy, which would never catch up otherwise.
            elif number % 100 == 0:
                producer.flush(WAIT_SECONDS)
        left = producer.flush(WAIT_SECONDS)
        if left:
            self.failures.append(f"{left} messages were not answered")

    def _consume(self) -> None:
        settings = {"group.id": "readers", "auto.offset.reset": "earliest", "enable.auto.commit": True}
        consumer = Consumer({"bootstrap.servers": self._cluster.bootstrap, **settings})
        consumer.subscribe([TOPIC])
        ends = 0.0
        while not ends or (time.monotonic() < ends and not self._has_all()):
            if self._sending_is_over.is_set() and not ends:
                ends = time.monotonic() + WAIT_SECONDS
            message = consumer.poll(0.2)
            if message is not None and message.error() is None:
                value = (message.value() or b"").decode()
                self.consumed[message.partition() or 0].append((message.offset() or 0, value))
        consumer.close()

    def _has_all(self) -> bool:
        return all(len({at for at, _ in self.consumed[one]}) >= len(self.sent[one]) for one in range(PARTITIONS))

    def _use_queue(self) -> None:
        number = 0
        while not self._stopping.is_set():
            node = next(node for node in self._cluster.nodes.values() if node.running)
            sqs = boto3.client(
                "sqs",
                endpoint_url=f"http://{node.sqs}",
                region_name="us-east-1",
                aws_access_key_id="test",
                aws_secret_access_key="test",
                config=Config(retries={"max_attempts": 1}, read_timeout=20),
            )
            try:
                url = sqs.create_queue(QueueName=QUEUE)["QueueUrl"]
                body = str(number)
                number += 1
                sqs.send_message(QueueUrl=url, MessageBody=body)
                self.queued.add(body)
                for got in sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages", []):
                    self.received.add(got["Body"])
                    sqs.delete_message(QueueUrl=url, ReceiptHandle=got["ReceiptHandle"])
            except (BotoCoreError, ClientError):
                time.sleep(0.2)


def _is_copying(cluster: Cluster) -> bool:
    """True if a part of a partition is copied, and a part is not. The API answers faster than a command starts."""
    address = cluster.nodes[cluster.leader()].http
    with urllib.request.urlopen(f"http://{address}/api/v1/cluster/partition-moves", timeout=60) as answer:
        moves = json.load(answer)["moves"]
    assert moves, "the moves ended too soon for this test"
    return any(move["copied_bytes"] and move["left_messages"] for move in moves)


def _groups(rows: list[dict[str, Any]]) -> list[str]:
    return [row["group"] for row in rows]


def _create(bootstrap: str, name: str, placement: str) -> bool:
    partitions = PARTITIONS if placement == "hall" else -1
    topic = NewTopic(name, partitions, config={"longhall.placement": placement, "segment.bytes": "100000"})
    admin = AdminClient({"bootstrap.servers": bootstrap})
    try:
        admin.create_topics([topic])[name].result(WAIT_SECONDS)
    except KafkaException as error:
        return bool(error.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS)
    return True


@pytest.mark.timeout(900)
def test_partitions_move_while_clients_go_on_and_the_source_dies(cluster_of_groups: Cluster) -> None:
    cluster = cluster_of_groups
    wait_until(lambda: _create(cluster.bootstrap, "starts-the-groups", "parts"), "the groups", cluster.log_tails)
    wait_until(lambda: _create(cluster.bootstrap, TOPIC, "hall"), "the topic", cluster.log_tails)
    traffic = _Traffic(cluster)
    try:
        wait_until(lambda: all(len(some) >= FIRST for some in traffic.sent.values()), "traffic", cluster.log_tails)
        _wait_for(cluster, lambda rows: _groups(rows) == ["hall", "hall"], "cluster", "map", TOPIC)
        _wait_for(cluster, lambda begun: begun["partitions"] == PARTITIONS, "topic", "placement", TOPIC, "parts")
        wait_until(lambda: _is_copying(cluster), "the copy", cluster.log_tails)
        killed = cluster.nodes[cluster.leader()]
        killed.kill()
        _wait_for(cluster, lambda moves: not moves, "cluster", "moves")
        _wait_for(cluster, lambda rows: len({*_groups(rows)} - {"hall"}) == PARTITIONS, "cluster", "map", TOPIC)
        killed.start()
        before = {one: len(some) for one, some in traffic.sent.items()}
        wait_until(
            lambda: all(len(traffic.sent[one]) > before[one] + 100 for one in before), "traffic", cluster.log_tails
        )
    finally:
        traffic.stop()
    assert traffic.failures == []
    for partition in range(PARTITIONS):
        log = dict(traffic.consumed[partition])
        assert len(log) == len(set(traffic.consumed[partition])), "an offset had two messages"
        assert sorted(log) == list(range(len(log)))
        assert [log[offset] for offset in sorted(log)] == traffic.sent[partition]
    assert len(traffic.received) > 10

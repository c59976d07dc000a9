"""Transactions of an unmodified client that settle messages of a queue in all wings of a real cluster."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import BotoCoreError, ClientError
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from longhall.coordination.ensemble import Ensemble
from soak.cluster import Cluster, wait_until
from soak.node import COMMAND
from tests.cluster.load import sqs_client
from tests.cluster.wings import wings_of

WAIT_SECONDS = 60.0
COUNT = 9
LEASE_SECONDS = 5
QUEUE, RESULTS = "work", "results"
PARTITIONS = 3

pytestmark = pytest.mark.timeout(600)


@pytest.fixture
def winged(ensemble: Ensemble, tmp_path: Path) -> Iterator[Cluster]:
    spread = {"default_placement": "spread"}  # So that every host has its wing from the start.
    made = Cluster(tmp_path, session_ms=3000, zookeeper=ensemble, path=f"/{tmp_path.name}", settings=spread)
    try:
        made.start()
        wait_until(lambda: _are_led(made), "the wings of all hosts are in sync", made.log_tails)
        yield made
    finally:
        made.stop()


def _are_led(cluster: Cluster) -> bool:
    found = wings_of(cluster)
    return len(found) == len(cluster.nodes) and all(wing["in_sync"].count(",") == 2 for wing in found)


class _Work:
    """The queue, through SQS at a node that lives."""

    def __init__(self, cluster: Cluster, number: int) -> None:
        node = cluster.nodes[number]
        self._client = sqs_client(node.sqs)
        self._url = f"http://{node.sqs}/000000000000/{QUEUE}"

    def send(self, word: str) -> set[str]:
        bodies = {f"{word}-{number}" for number in range(COUNT)}
        for body in bodies:
            self._client.send_message(QueueUrl=self._url, MessageBody=body)
        return bodies

    def receive(self, count: int) -> list[dict[str, Any]]:
        """So many messages, with the handles of this lease."""
        found: dict[str, dict[str, Any]] = {}

        def has_all() -> bool:
            try:
                answer = self._client.receive_message(
                    QueueUrl=self._url, MaxNumberOfMessages=10, WaitTimeSeconds=1, VisibilityTimeout=LEASE_SECONDS * 6
                )
            except (BotoCoreError, ClientError):  # A wing may have no leader at this moment.
                return False
            found.update({message["Body"]: message for message in answer.get("Messages", [])})
            return len(found) >= count

        wait_until(has_all, f"{QUEUE} delivers {count} messages")
        return list(found.values())

    def drain(self, seconds: int) -> set[str]:
        """Everything that is delivered within this time, deleted."""
        found: set[str] = set()
        for _ in range(seconds):
            try:
                answer = self._client.receive_message(QueueUrl=self._url, MaxNumberOfMessages=10, WaitTimeSeconds=1)
                for message in answer.get("Messages", []):
                    self._client.delete_message(QueueUrl=self._url, ReceiptHandle=message["ReceiptHandle"])
                    found.add(message["Body"])
            except (BotoCoreError, ClientError):
                continue
        return found


class _Worker:
    """A transactional producer that writes a result for each message, and settles it."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        everybody = ",".join(node.bootstrap for node in cluster.nodes.values())
        settings = {"bootstrap.servers": everybody, "transactional.id": "worker", "transaction.timeout.ms": 30_000}
        self.producer = Producer(settings)
        self.producer.init_transactions(WAIT_SECONDS)
        self._group = Consumer({"bootstrap.servers": everybody, "group.id": f"longhall.settle.{QUEUE}"})

    def fill(self, messages: list[dict[str, Any]]) -> None:
        self.producer.begin_transaction()
        for number, message in enumerate(messages):
            self.producer.produce(RESULTS, message["Body"], partition=number % PARTITIONS)
        handles = " ".join(message["ReceiptHandle"] for message in messages)
        settled = TopicPartition(QUEUE, 0, 0, metadata=handles)
        try:
            self.producer.send_offsets_to_transaction([settled], self._group.consumer_group_metadata(), WAIT_SECONDS)
        except KafkaException as error:
            pytest.fail(f"the receipts were refused: {error}\n{self._cluster.log_tails()}")

    def close(self) -> None:
        self._group.close()


def _results(cluster: Cluster, number: int) -> list[str]:
    """All committed results."""
    settings = {"bootstrap.servers": cluster.nodes[number].bootstrap, "group.id": "readers"}
    consumer = Consumer({**settings, "isolation.level": "read_committed"})
    consumer.assign([TopicPartition(RESULTS, partition, 0) for partition in range(PARTITIONS)])
    found: list[str] = []
    quiet = 0
    while quiet < 5:
        some = [(record.value() or b"").decode() for record in consumer.consume(100, 1.0) if not record.error()]
        quiet = 0 if some else quiet + 1
        found += some
    consumer.close()
    return sorted(found)


def test_a_transaction_settles_messages_of_all_wings_though_the_coordinator_dies(winged: Cluster) -> None:
    command = [*COMMAND, "queue", "create", QUEUE, "--placement", "parts", "--http", winged.nodes[1].http]
    done = subprocess.run(command, capture_output=True, text=True, timeout=90, check=False)
    assert done.returncode == 0, done.stderr
    topic = NewTopic(RESULTS, PARTITIONS, config={"longhall.placement": "parts"})
    admin = AdminClient({"bootstrap.servers": winged.nodes[1].bootstrap})
    admin.create_topics([topic], request_timeout=60)[RESULTS].result()
    leader = winged.leader()
    alive = next(number for number in winged.nodes if number != leader)
    work, worker = _Work(winged, alive), _Worker(winged)

    committed = work.send("committed")
    messages = work.receive(COUNT)
    assert len({message["ReceiptHandle"].partition(".")[0] for message in messages}) > 1  # Of several groups.
    worker.fill(messages)
    worker.producer.commit_transaction(WAIT_SECONDS)
    assert work.drain(LEASE_SECONDS) == set()
    assert _results(winged, alive) == sorted(committed)

    left = work.send("left")
    messages = work.receive(COUNT)
    worker.fill(messages)
    client = sqs_client(winged.nodes[alive].sqs)
    url = f"http://{winged.nodes[alive].sqs}/000000000000/{QUEUE}"
    client.change_message_visibility(QueueUrl=url, ReceiptHandle=messages[0]["ReceiptHandle"], VisibilityTimeout=0)
    with pytest.raises(KafkaException) as refused:
        worker.producer.commit_transaction(WAIT_SECONDS)
    assert refused.value.args[0].txn_requires_abort()
    worker.producer.abort_transaction(WAIT_SECONDS)
    assert work.drain(6 * LEASE_SECONDS + 30) == left  # Also those that groups had held.
    assert _results(winged, alive) == sorted(committed)

    decided = work.send("decided")
    worker.fill(work.receive(COUNT))
    outcome: list[bool] = []

    def commit() -> None:
        try:
            worker.producer.commit_transaction(WAIT_SECONDS)
            outcome.append(True)
        except KafkaException:
            outcome.append(False)

    committing = threading.Thread(target=commit)
    committing.start()
    winged.nodes[leader].kill()  # With it the leader of one of the wings.
    committing.join(2 * WAIT_SECONDS)
    assert not committing.is_alive()
    back = work.drain(6 * LEASE_SECONDS + 60)
    found = _results(winged, alive)
    assert found in (sorted(committed), sorted(committed | decided))
    assert back == (set() if len(found) > len(committed) else decided)
    assert not outcome[0] or len(found) > len(committed)
    worker.close()

"""Queues over a topic in the wings of a real cluster, a fork and a retry topic, through any node."""

from __future__ import annotations

import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import BotoCoreError, ClientError
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from longhall.coordination.ensemble import Ensemble
from soak.cluster import Cluster, wait_until
from soak.node import COMMAND
from tests.cluster.load import sqs_client
from tests.cluster.wings import wings_of

PARTITIONS = 6
COUNT = 60

pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def winged(ensemble: Ensemble, tmp_path: Path) -> Iterator[Cluster]:
    spread = {"default_placement": "spread"}  # So that every host has its wing from the start.
    made = Cluster(tmp_path, session_ms=3000, zookeeper=ensemble, path=f"/{tmp_path.name}", settings=spread)
    try:
        made.start()
        _wait_for_wings(made)
        yield made
    finally:
        made.stop()


def _run(cluster: Cluster, *words: str) -> None:
    command = [*COMMAND, *words, "--http", cluster.nodes[1].http]
    done = subprocess.run(command, capture_output=True, text=True, timeout=90, check=False)
    assert done.returncode == 0, f"{words}: {done.stderr}\n{cluster.log_tails()}"


def _wait_for_wings(cluster: Cluster) -> None:
    """The first placement starts the processes of all wings, which takes a while on a busy machine."""

    def are_led() -> bool:
        found = wings_of(cluster)
        return len(found) == len(cluster.nodes) and all(wing["in_sync"].count(",") == 2 for wing in found)

    wait_until(are_led, "the wings of all hosts are in sync", cluster.log_tails)


def _produce(cluster: Cluster, first: int) -> set[str]:
    producer = Producer(
        {"bootstrap.servers": ",".join(node.bootstrap for node in cluster.nodes.values()), "acks": "all"}
    )
    for number in range(first, first + COUNT):
        producer.produce("t", str(number), partition=number % PARTITIONS)
    assert producer.flush(60) == 0, cluster.log_tails()
    return {str(number) for number in range(first, first + COUNT)}


def _receive(cluster: Cluster, number: int, queue: str, wanted: set[str]) -> list[str]:
    """Receive through one node and delete, until all of these were received; the bodies."""
    client = sqs_client(cluster.nodes[number].sqs)
    url = f"http://{cluster.nodes[number].sqs}/000000000000/{queue}"
    found: list[str] = []

    def has_all() -> bool:
        try:
            answer = client.receive_message(QueueUrl=url, MaxNumberOfMessages=10, WaitTimeSeconds=1)
            for message in answer.get("Messages", []):
                client.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
                found.append(message["Body"])
        except (BotoCoreError, ClientError):  # A wing may have no leader at this moment.
            return False
        return set(found) >= wanted

    wait_until(has_all, f"{queue} delivers {len(wanted)} messages")
    return found


def _read(cluster: Cluster, number: int, topic: str, partitions: int, count: int) -> list[str]:
    """Records of all partitions of a topic, from a client that knows one node."""
    consumer = Consumer({"bootstrap.servers": cluster.nodes[number].bootstrap, "group.id": "readers"})
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])
    found: list[str] = []

    def has_all() -> bool:
        found.extend((record.value() or b"").decode() for record in consumer.consume(100, 1.0) if not record.error())
        return len(found) >= count

    wait_until(has_all, f"{topic} has {count} records")
    consumer.close()
    return found


def test_queues_over_a_topic_in_wings_survive_a_leader(winged: Cluster) -> None:
    admin = AdminClient({"bootstrap.servers": winged.nodes[1].bootstrap})
    topic = NewTopic("t", PARTITIONS, config={"longhall.placement": "parts"})
    admin.create_topics([topic], request_timeout=60)["t"].result()
    first = _produce(winged, 0)
    _run(winged, "queue", "create", "q", "--topic", "t", "--settled", "keep")
    assert Counter(_receive(winged, 2, "q", first)) == Counter(first)
    _run(winged, "queue", "fork", "q", "again")
    winged.nodes[3].kill()
    second = _produce(winged, COUNT)
    assert set(_receive(winged, 1, "q", second)) == second, "what is settled does not come again"
    assert set(_receive(winged, 2, "again", first | second)) == first | second
    _run(winged, "queue", "delete", "again", "--yes")
    _run(winged, "queue", "fork", "q", "again")
    assert set(_receive(winged, 1, "again", first | second)) == first | second


def test_the_retry_topic_of_a_queue_in_wings_is_read_through_any_node(winged: Cluster) -> None:
    _run(winged, "queue", "create", "r", "--placement", "parts", "--retry-first", "1h")
    client: Any = sqs_client(winged.nodes[1].sqs)
    url = client.get_queue_url(QueueName="r")["QueueUrl"]
    bodies = [str(number) for number in range(12)]
    for body in bodies:
        client.send_message(QueueUrl=url, MessageBody=body)
    returned: list[str] = []
    while len(returned) < len(bodies):
        for message in client.receive_message(QueueUrl=url, MaxNumberOfMessages=10, WaitTimeSeconds=10)["Messages"]:
            client.change_message_visibility(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"], VisibilityTimeout=0)
            returned.append(message["Body"])
    for number in winged.nodes:
        assert sorted(_read(winged, number, "r.retry", 3, len(bodies))) == sorted(bodies)

"""The audit of a queue in one wing of a real cluster: Kafka clients read it through any node, also after a death."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import BotoCoreError, ClientError
from confluent_kafka import Consumer, TopicPartition

from longhall.coordination.ensemble import Ensemble
from soak.cluster import Cluster, wait_until
from soak.node import COMMAND
from tests.cluster.load import sqs_client
from tests.cluster.wings import wings_of

COUNT = 10


@pytest.fixture
def winged(ensemble: Ensemble, tmp_path: Path) -> Iterator[Cluster]:
    made = Cluster(tmp_path, session_ms=3000, zookeeper=ensemble, path=f"/{tmp_path.name}")
    try:
        made.start()
        yield made
    finally:
        made.stop()


def _create(cluster: Cluster) -> None:
    command = [*COMMAND, "queue", "create", "q", "--audit", "deliveries", "--placement", "share"]
    command += ["--http", cluster.nodes[1].http]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, f"{done.stderr}\n{cluster.log_tails()}"


def _pass(cluster: Cluster, number: int) -> set[str]:
    """Send messages through a node, receive and delete them; their ids."""
    client = sqs_client(cluster.nodes[number].sqs)
    url = f"http://{cluster.nodes[number].sqs}/000000000000/q"

    def answers() -> bool:
        try:
            client.get_queue_attributes(QueueUrl=url, AttributeNames=["ApproximateNumberOfMessages"])
        except (BotoCoreError, ClientError):
            return False
        return True

    wait_until(answers, "the wing of the queue has a leader")
    sent = {client.send_message(QueueUrl=url, MessageBody=str(one))["MessageId"] for one in range(COUNT)}
    settled: set[str] = set()
    while settled != sent:
        answer = client.receive_message(QueueUrl=url, MaxNumberOfMessages=10, WaitTimeSeconds=20)
        assert "Messages" in answer, f"{len(settled)} of {len(sent)}\n{cluster.log_tails()}"
        for message in answer["Messages"]:
            client.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
            settled.add(message["MessageId"])
    return settled


def _read(cluster: Cluster, number: int, count: int) -> list[dict[str, Any]]:
    """The first records of the audit topic, from a client that knows one node."""
    consumer = Consumer({"bootstrap.servers": cluster.nodes[number].bootstrap, "group.id": "readers"})
    consumer.assign([TopicPartition("q.deliveries", 0, 0)])
    found: list[dict[str, Any]] = []

    def has_all() -> bool:
        for record in consumer.consume(100, 1.0):
            if record.error() is None:
                found.append(json.loads(record.value() or b""))
        return len(found) >= count

    wait_until(has_all, f"the audit topic has {count} records")
    consumer.close()
    return found


def test_the_audit_of_a_queue_in_a_wing_survives_its_leader(winged: Cluster) -> None:
    _create(winged)
    first = _pass(winged, 1)
    (wing,) = [wing for wing in wings_of(winged) if wing["placed"]]
    assert wing["placed"] == 2, "the queue, and its audit topic"
    for number in winged.nodes:
        assert len(_read(winged, number, 2 * COUNT)) == 2 * COUNT

    dying = int(wing["leader"])
    winged.nodes[dying].kill()
    other = next(number for number in winged.nodes if number != dying)
    messages = first | _pass(winged, other)
    found = _read(winged, other, 4 * COUNT)
    settled = Counter(one["message_id"] for one in found if one["kind"] == "settled")
    assert settled == Counter(messages), "each settle is there once"
    assert {one["message_id"] for one in found if one["kind"] == "delivered"} == messages

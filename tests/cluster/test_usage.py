"""Usage in a real cluster: queues and topics in wings, clients at a front end, a leader that is killed; exact sums."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import Producer

from longhall.coordination.ensemble import Ensemble
from soak.cluster import Cluster
from soak.node import Node
from tests.cluster.test_front_end import FRONT, retried, sqs_client
from tests.cluster.test_wing_queues import _wait_for_wings
from tests.node.test_usage import read, sums_of

QUEUES = 4
MESSAGES = 25
WAIT_S = 90.0


@pytest.fixture
def counted(ensemble: Ensemble, tmp_path: Path) -> Iterator[Cluster]:
    """A cluster that spreads queues and topics over the wings of its hosts, and counts usage."""
    settings = {"default_placement": "spread", "usage": "true"}
    made = Cluster(tmp_path, session_ms=3000, zookeeper=ensemble, path=f"/{tmp_path.name}", settings=settings)
    try:
        made.start()
        _wait_for_wings(made)
        yield made
    finally:
        made.stop()


@pytest.fixture
def front(counted: Cluster) -> Iterator[Node]:
    node = counted.make(FRONT)
    node.options += ["--role", "front"]
    node.start()
    yield node
    node.stop()


def test_sums_are_exact_with_wings_and_a_front_end_while_a_node_is_killed(counted: Cluster, front: Node) -> None:
    sqs = sqs_client(f"http://{front.sqs}")
    names = [f"queue-{number}" for number in range(QUEUES)]
    urls = {name: retried(partial(sqs.create_queue, QueueName=name))["QueueUrl"] for name in names}
    producer = Producer({"bootstrap.servers": front.bootstrap, "enable.idempotence": True})
    victim = counted.nodes[counted.followers()[0]]
    for number in range(MESSAGES):
        if number == MESSAGES // 2:
            victim.kill()  # It leads the wing of its host.
        for name, url in urls.items():
            body = f"{name} {number}"
            retried(partial(sqs.send_message, QueueUrl=url, MessageBody=body))
        producer.produce("events", b"v" * 50)
        producer.poll(0)
    assert producer.flush(60) == 0
    victim.start()
    settled = dict.fromkeys(names, 0)
    for name, url in urls.items():
        until = time.monotonic() + WAIT_S
        while time.monotonic() < until:
            found = retried(partial(sqs.receive_message, QueueUrl=url, MaxNumberOfMessages=10, WaitTimeSeconds=2)).get(
                "Messages", []
            )
            for message in found:
                handle = message["ReceiptHandle"]
                retried(partial(sqs.delete_message, QueueUrl=url, ReceiptHandle=handle))
                settled[name] += 1
            if not found and settled[name] >= MESSAGES:
                break
    until = time.monotonic() + WAIT_S
    while True:
        records = read(counted.bootstrap)
        sums = sums_of(records)
        sent = {name: sums["sqs", name, "messages_sent"] for name in names}
        if (sent == settled and sums["kafka", "events", "messages_sent"] == MESSAGES) or time.monotonic() > until:
            break
        time.sleep(2)
    assert len({record["id"] for record in records}) == len(records)
    assert sent == settled
    assert {name: sums["sqs", name, "messages_settled"] for name in names} == settled
    assert sums["kafka", "events", "messages_sent"] == MESSAGES
    assert sums["sqs", names[0], "requests.SendMessages"] >= MESSAGES, "the front end counts requests"

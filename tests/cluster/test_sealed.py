"""Sealed queues and topics in a cluster and behind workers: any process seals and opens, every replica has ciphertext,
and a leader that is killed takes no message and no key with it.
"""

from __future__ import annotations

import secrets
import time
from pathlib import Path

import pytest
from botocore.exceptions import BotoCoreError, ClientError
from confluent_kafka.admin import AdminClient, NewTopic

from longhall.coordination.ensemble import Ensemble
from soak.cluster import Cluster
from soak.node import Node
from tests.clients.sealed.conftest import found_in, sqs_at, write_keys
from tests.clients.sealed.test_doors import consume, http, produce, receive


@pytest.mark.parametrize("placement", ["hall", "share"])
def test_a_leader_is_killed(ensemble: Ensemble, tmp_path: Path, placement: str) -> None:
    secret = secrets.token_hex(24)
    keys = str(write_keys(tmp_path))
    cluster = Cluster(
        tmp_path / "cluster", session_ms=3000, zookeeper=ensemble, path=f"/sealed-{placement}", settings={"keys": keys}
    )
    (tmp_path / "cluster").mkdir()
    try:
        cluster.start()
        cluster.wait_in_sync()
        first, second = (cluster.nodes[number] for number in cluster.followers())
        attributes = {"KmsMasterKeyId": "alias/orders", "LonghallPlacement": placement}
        url = sqs_at(first).create_queue(QueueName="q", Attributes=attributes)["QueueUrl"]
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        config = {"longhall.sealed": "alias/orders", "longhall.placement": placement}
        admin.create_topics([NewTopic("t", 1, config=config)])["t"].result(20)
        sent = [f"{number} {secret}" for number in range(20)]
        for body in sent[:10]:
            sqs_at(first).send_message(QueueUrl=url, MessageBody=body)
        produce(first, "t", *[body.encode() for body in sent[:10]])
        http(second, "POST", "/api/v1/keys/q/rotate")
        cluster.nodes[cluster.leader()].kill()
        for body in sent[10:]:
            _send(first, body)
        produce(first, "t", *[body.encode() for body in sent[10:]])
        there = f"http://{second.sqs}/000000000000/q"
        assert sorted(receive(sqs_at(second), there, 20)) == sorted(sent)
        assert sorted(consume(second, "t", 20)) == sorted(body.encode() for body in sent)
        assert found_in(tmp_path, secret.encode()) == [], "no file of any node"
    finally:
        cluster.stop()


def _send(node: Node, body: str) -> None:
    """Send until a leader takes it, as a client's own retry does."""
    deadline = time.monotonic() + 60
    while True:
        try:
            sqs_at(node).send_message(QueueUrl=f"http://{node.sqs}/000000000000/q", MessageBody=body)
            return
        except (ClientError, BotoCoreError):
            if time.monotonic() > deadline:
                raise
            time.sleep(0.3)


def test_behind_workers(tmp_path: Path) -> None:
    secret = secrets.token_hex(24)
    options = ["--workers", "3", "--keys", str(write_keys(tmp_path))]
    with Node(tmp_path / "data", options=options) as node:
        url = sqs_at(node).create_queue(QueueName="q", Attributes={"SqsManagedSseEnabled": "true"})["QueueUrl"]
        sent = [f"{number} {secret}" for number in range(30)]
        for body in sent:  # Each on a connection of its own: the workers take them in turn.
            sqs_at(node).send_message(QueueUrl=url, MessageBody=body)
        assert sorted(value.decode() for value in consume(node, "q", 30)) == sorted(sent)
        found: list[str] = []
        for _ in range(40):
            found += receive(sqs_at(node), url, 1)
            if len(found) >= 30:
                break
        assert sorted(found) == sorted(sent)
        assert found_in(tmp_path, secret.encode()) == []

"""A rolling upgrade with real processes, under load: forward, back and forward again, and nothing acknowledged is
lost.

`LONGHALL_TEST_EARLIER=DIR` names the `src` directory of an earlier version, from which the nodes are upgraded to this
one; without it the earlier version is this one at feature level 1.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from confluent_kafka import Producer

from longhall.broker.feature_gates import NEWEST
from longhall.coordination.ensemble import Ensemble
from soak.cluster import NODES, Cluster
from soak.door_load import AmqpLoad, DoorLoad, HttpLoad, SqsLoad, StompLoad
from soak.node import Node
from soak.upgrade import Upgrade, Version
from tests.cluster.ledger import readable
from tests.cluster.load import WAIT_SECONDS, Load, sqs_client
from tests.left_out import leave_out

# What clients of one node raise, after their own tries, while that node is stopped.
UNREACHABLE = ("EndpointConnectionError", "MaxRetryError", "ConnectionRefusedError", "OperationalError", "no receipt")

EARLIER = os.environ.get("LONGHALL_TEST_EARLIER", "")


def _upgrade(cluster: Cluster) -> Upgrade:
    if EARLIER:
        return Upgrade(cluster, Version.at(Path(EARLIER)), Version(NEWEST))
    return Upgrade(cluster, Version(1), Version(2))


def test_three_nodes_change_their_version_under_load(ensemble: Ensemble, tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, session_ms=3000, zookeeper=ensemble, path=f"/{tmp_path.name}")
    upgrade = _upgrade(cluster)
    try:
        upgrade.begin()
        load = Load(cluster, "rolling", NODES[0])
        load.start()
        doors = _door_loads(cluster)
        for door in doors:
            door.start()
        upgrade.roll(load)
        load.stop()
        for door in doors:
            door.finish()
            assert [failure for failure in door.failures if not _is_unreachable(failure)] == []
            assert door.missing() == []
            assert door.acknowledged
        load.check(NODES[0])
    finally:
        cluster.stop()


def _is_unreachable(failure: str) -> bool:
    """True if the client gave up because its node did not run: it knows no other."""
    return any(name in failure for name in UNREACHABLE)


def test_a_directory_opens_in_both_versions(tmp_path: Path) -> None:
    """A lone node changes its version forth and back; each version reads what the other has written."""
    if not EARLIER:
        leave_out("no earlier version: LONGHALL_TEST_EARLIER names its src directory")
    versions = {"earlier": Version.at(Path(EARLIER)), "present": Version(NEWEST)}
    expected: list[str] = []
    for at, name in enumerate(("earlier", "present", "earlier", "present")):
        node = versions[name].apply(Node(tmp_path / "node"))
        with node:
            sqs = sqs_client(node.sqs)
            url = sqs.create_queue(QueueName="kept")["QueueUrl"]
            sqs.send_message(QueueUrl=url, MessageBody=f"{at} {name}")
            expected.append(f"{at} {name}")
            producer = Producer({"bootstrap.servers": node.bootstrap, "enable.idempotence": True})
            producer.produce("kept-topic", f"{at} {name}")
            assert producer.flush(30) == 0
            assert _received(sqs, url, len(expected)) == sorted(expected)
            assert readable(node.bootstrap, "kept-topic") == expected
            assert node.stop() == 0


def _received(sqs: Any, url: str, count: int) -> list[str]:
    """The bodies of so many messages, in their order; they stay in the queue."""
    bodies: list[str] = []
    receipts: list[str] = []
    deadline = time.monotonic() + WAIT_SECONDS
    while len(bodies) < count and time.monotonic() < deadline:
        for message in sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10, WaitTimeSeconds=1).get("Messages", []):
            bodies.append(message["Body"])
            receipts.append(message["ReceiptHandle"])
    for receipt in receipts:
        sqs.change_message_visibility(QueueUrl=url, ReceiptHandle=receipt, VisibilityTimeout=0)
    return sorted(bodies)


def _door_loads(cluster: Cluster) -> list[DoorLoad]:
    """Clients of other doors. Each knows one node, which follows or leads while the versions are mixed."""
    one, two, three = (cluster.nodes[number] for number in NODES)
    chosen: list[tuple[type[DoorLoad], str, str]] = [
        (SqsLoad, "sqs", two.sqs),
        (HttpLoad, "http", three.http),
        (AmqpLoad, "amqp", three.amqp),
        (StompLoad, "stomp", one.stomp),
    ]
    loads: list[DoorLoad] = []
    for kind, door, address in chosen:
        host, _, port = address.rpartition(":")
        loads.append(kind(door, host, int(port)))
    return loads

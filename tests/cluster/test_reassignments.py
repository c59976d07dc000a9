"""Kafka's administrators move partitions of a spread topic with AlterPartitionReassignments."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as Place
from kafka import TopicPartition
from kafka.admin import KafkaAdminClient
from kafka.errors import InvalidReplicationAssignmentError, NoReassignmentInProgressError

from longhall.coordination.ensemble import Ensemble
from soak.cluster import Cluster, wait_until

TOPIC = "reassigned"
MOVING = TopicPartition(TOPIC, 0)
MESSAGES = 2000  # Of 2,000 bytes: the copy takes some seconds, in which it can be cancelled.


@pytest.fixture
def slow_copies(ensemble: Ensemble, tmp_path: Path) -> Iterator[Cluster]:
    settings = {"copy_bytes_a_second": "524288"}
    made = Cluster(tmp_path, session_ms=3000, zookeeper=ensemble, path=f"/{tmp_path.name}", settings=settings)
    try:
        made.start()
        yield made
    finally:
        made.stop()


def _replicas(admin: KafkaAdminClient) -> dict[int, list[int]]:
    (described,) = admin.describe_topics([TOPIC])
    return {one["partition_index"]: one["replica_nodes"] for one in described["partitions"]}


def test_a_partition_moves_to_the_group_whose_replicas_are_named(slow_copies: Cluster) -> None:
    admin = KafkaAdminClient(bootstrap_servers=slow_copies.bootstrap)
    admin.create_topics({TOPIC: {"num_partitions": 3, "configs": {"longhall.placement": "parts"}}})
    producer = Producer({"bootstrap.servers": slow_copies.bootstrap, "enable.idempotence": True})
    sent = [f"{number} ".encode().ljust(2000, b"x") for number in range(MESSAGES)]
    for value in sent:
        producer.produce(TOPIC, value, partition=0)
    assert producer.flush(60) == 0
    before = _replicas(admin)
    assert len({tuple(sorted(replicas)) for replicas in before.values()}) == 3, "each partition is in another group"

    assert admin.alter_partition_reassignments({MOVING: before[0]}) == {MOVING: None}
    assert admin.list_partition_reassignments() == {}
    assert admin.alter_partition_reassignments({MOVING: None}) == {MOVING: NoReassignmentInProgressError}
    mixed = [before[0][0], before[1][0]]
    assert admin.alter_partition_reassignments({MOVING: mixed}) == {MOVING: InvalidReplicationAssignmentError}

    assert admin.alter_partition_reassignments({MOVING: before[1]}) == {MOVING: None}
    under_way = admin.list_partition_reassignments()
    assert under_way[MOVING]["adding_replicas"] == before[1]
    assert under_way[MOVING]["removing_replicas"] == before[0]
    assert admin.alter_partition_reassignments({MOVING: None}) == {MOVING: None}
    wait_until(lambda: not admin.list_partition_reassignments(), "the move is cancelled", slow_copies.log_tails)
    assert _replicas(admin) == before

    assert admin.alter_partition_reassignments({MOVING: before[1]}) == {MOVING: None}
    producer.produce(TOPIC, b"meanwhile", partition=0)
    wait_until(lambda: not admin.list_partition_reassignments(), "the partition has moved", slow_copies.log_tails)
    assert _replicas(admin) == {**before, 0: before[1]}
    producer.produce(TOPIC, b"after", partition=0)
    assert producer.flush(60) == 0
    assert _read(slow_copies, len(sent) + 2) == [*sent, b"meanwhile", b"after"]
    admin.close()


def _read(cluster: Cluster, count: int) -> list[bytes | None]:
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "readers"})
    consumer.assign([Place(TOPIC, 0, 0)])
    found: list[bytes | None] = []
    while len(found) < count:
        messages = consumer.consume(500, timeout=20)
        assert messages, f"{len(found)} of {count} messages were read\n{cluster.log_tails()}"
        found += [message.value() for message in messages]
    consumer.close()
    return found

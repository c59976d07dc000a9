"""kafka-python: its admin client, and its transactions with the tools that find and abort hung ones."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, OffsetSpec
from kafka.admin._transactions import AbortTransactionSpec
from kafka.errors import (
    GroupIdNotFoundError,
    InvalidConfigurationError,
    InvalidReplicationAssignmentError,
    KafkaError,
    NoError,
    TopicAlreadyExistsError,
    TransactionalIdNotFoundError,
    UnknownTopicOrPartitionError,
)
from kafka.structs import OffsetAndMetadata

from tests.clients.conftest import WAIT_SECONDS, FreshName, MakeTopic, eventually
from tests.clients.librdkafka import read_all


@pytest.fixture(scope="module")
def manager(module_bootstrap: str) -> Iterator[KafkaAdminClient]:
    client = KafkaAdminClient(bootstrap_servers=module_bootstrap)
    yield client
    client.close()


def fill(bootstrap: str, topic: str, count: int) -> None:
    producer = KafkaProducer(bootstrap_servers=bootstrap)
    for number in range(count):
        producer.send(topic, str(number).encode())
    producer.close(timeout=10)


def committed_values(bootstrap: str, topic: str) -> list[str]:
    return [m.value().decode() for m in read_all(bootstrap, topic, isolation_level="read_committed")]


def test_topics(manager: KafkaAdminClient, fresh_name: FreshName) -> None:
    name = fresh_name("topic")
    manager.create_topics({name: {"num_partitions": 2, "replication_factor": 1, "configs": {"retention.ms": "60000"}}})
    eventually(lambda: name in manager.list_topics(), "it is listed")
    (described,) = manager.describe_topics([name])
    assert len(described["partitions"]) == 2
    with pytest.raises(TopicAlreadyExistsError):
        manager.create_topics({name: {"num_partitions": 2, "replication_factor": 1}})
    manager.create_partitions({name: 5})
    eventually(lambda: len(manager.describe_topics([name])[0]["partitions"]) == 5, "it has grown")
    manager.delete_topics([name])
    eventually(lambda: name not in manager.list_topics(), "it is gone")
    with pytest.raises(UnknownTopicOrPartitionError):
        manager.delete_topics([name])


def test_a_topic_with_the_defaults_of_the_broker(manager: KafkaAdminClient, fresh_name: FreshName) -> None:
    name = fresh_name("defaults")
    manager.create_topics([name])
    eventually(lambda: len(manager.describe_topics([name])[0]["partitions"]) >= 1, "it has partitions")


@pytest.mark.parametrize("incremental", [True, False])
def test_configuration(manager: KafkaAdminClient, make_topic: MakeTopic, incremental: bool) -> None:
    topic = make_topic(config={})

    def changed() -> dict[str, str]:
        described = manager.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)])
        return {name: entry["value"] for name, entry in described["topic"][topic].items()}

    def change(**configs: str) -> Any:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic, {k.replace("_", "."): v for k, v in configs.items()})
        return manager.alter_configs([resource], incremental=incremental)["topic"][topic]

    assert "retention.ms" not in changed()
    assert change(retention_ms="120000") == "OK"
    assert change(max_message_bytes="2000") == "OK"
    wanted = {("retention.ms", "120000"), ("max.message.bytes", "2000")}
    eventually(lambda: wanted <= set(changed().items()), "both changes are described")
    assert InvalidConfigurationError.__name__ in change(retention_ms="soon")
    manager.reset_configs([ConfigResource(ConfigResourceType.TOPIC, topic, ["retention.ms"])], incremental=incremental)
    eventually(lambda: "retention.ms" not in changed(), "it is back to its default")
    assert changed()["max.message.bytes"] == "2000"


def test_records_and_offsets(bootstrap: str, manager: KafkaAdminClient, topic: str) -> None:
    fill(bootstrap, topic, 10)
    here = TopicPartition(topic, 0)

    def offset(spec: OffsetSpec) -> int:
        return int(manager.list_partition_offsets({here: spec})[here].offset)

    assert 0 <= offset(OffsetSpec.MAX_TIMESTAMP) <= 9
    assert manager.delete_records({here: 3})[here]["low_watermark"] == 3
    assert (offset(OffsetSpec.EARLIEST), offset(OffsetSpec.LATEST)) == (3, 10)


def test_groups_and_their_offsets(
    bootstrap: str, manager: KafkaAdminClient, make_topic: MakeTopic, fresh_name: FreshName
) -> None:
    topic, group = make_topic(partitions=2), fresh_name("group")
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    wanted = {first: OffsetAndMetadata(5, "five", -1), second: OffsetAndMetadata(7, "", -1)}
    assert set(manager.alter_group_offsets(group, wanted).values()) == {NoError}
    listed = manager.list_group_offsets(group)[group]
    assert {place: found.offset for place, found in listed.items()} == {first: 5, second: 7}
    assert listed[first].metadata == "five"

    assert {g["group_id"]: g["group_state"] for g in manager.list_groups()}[group] == "Empty"
    assert manager.describe_groups([group])[group]["group_state"] == "Empty"
    assert group in {g["group_id"] for g in manager.list_groups(states_filter=["Empty"])}
    assert group not in {g["group_id"] for g in manager.list_groups(states_filter=["Stable"])}

    assert manager.delete_group_offsets(group, [second]) == {second: NoError}
    assert set(manager.list_group_offsets(group)[group]) == {first}
    assert manager.delete_groups([group]) == {group: "OK"}
    assert manager.delete_groups([group]) == {group: GroupIdNotFoundError.__name__}


def test_a_member_is_described_and_removed(
    bootstrap: str, manager: KafkaAdminClient, make_topic: MakeTopic, fresh_name: FreshName
) -> None:
    topic, group = make_topic(partitions=2), fresh_name("group")
    consumer = KafkaConsumer(topic, bootstrap_servers=bootstrap, group_id=group, client_id="somebody")
    for _ in range(100):
        consumer.poll(timeout_ms=100)
        if consumer.assignment():
            break
    described = manager.describe_groups([group])[group]
    assert described["group_state"] == "Stable"
    assert described["protocol_type"] == "consumer"
    (member,) = described["members"]
    assert member["client_id"] == "somebody"
    assigned = member["member_assignment"]["assigned_partitions"]
    assert [(t["topic"], sorted(t["partitions"])) for t in assigned] == [(topic, [0, 1])]
    refused = manager.delete_group_offsets(group, [TopicPartition(topic, 0)])
    assert [error.__name__ for error in refused.values()] == ["GroupSubscribedToTopicError"]
    consumer.close(autocommit=False)
    assert manager.describe_groups([group])[group]["members"] == []


def test_cluster_and_log_directories(bootstrap: str, manager: KafkaAdminClient, topic: str) -> None:
    fill(bootstrap, topic, 50)
    cluster = manager.describe_cluster()
    assert cluster["cluster_id"]
    assert bootstrap in {f"{broker['host']}:{broker['port']}" for broker in cluster["brokers"]}
    directories = [d for b in manager.describe_log_dirs([topic]) for d in b["log_dirs"]]
    sizes = [
        p["partition_size"] for d in directories for t in d["topics"] for p in t["partitions"] if t["name"] == topic
    ]
    (described,) = manager.describe_topics([topic])
    assert len(sizes) == len(described["partitions"][0]["replica_nodes"])
    assert max(sizes) > 0


def test_reassignments_to_the_replicas_that_a_partition_has(manager: KafkaAdminClient, topic: str) -> None:
    place = TopicPartition(topic, 0)
    (described,) = manager.describe_topics([topic])
    replicas = described["partitions"][0]["replica_nodes"]
    assert manager.alter_partition_reassignments({place: replicas}) == {place: None}
    assert manager.list_partition_reassignments() == {}
    refused = manager.alter_partition_reassignments({place: [*replicas, 4711]})
    assert refused == {place: InvalidReplicationAssignmentError}


def test_transactions_commit_abort_and_fence(bootstrap: str, topic: str, fresh_name: FreshName) -> None:
    name = fresh_name("txn")
    producer = KafkaProducer(bootstrap_servers=bootstrap, transactional_id=name)
    producer.init_transactions()
    for word, end in (("one", producer.commit_transaction), ("two", producer.abort_transaction)):
        producer.begin_transaction()
        producer.send(topic, word.encode()).get(WAIT_SECONDS)
        end()
    producer.begin_transaction()
    producer.send(topic, b"zombie").get(WAIT_SECONDS)
    newer = KafkaProducer(bootstrap_servers=bootstrap, transactional_id=name)
    newer.init_transactions()
    with pytest.raises(KafkaError) as refused:
        producer.commit_transaction()
    assert type(refused.value).__name__ in {"ProducerFencedError", "InvalidProducerEpochError"}
    newer.begin_transaction()
    newer.send(topic, b"three").get(WAIT_SECONDS)
    newer.commit_transaction()
    newer.close(timeout=5)
    producer.close(timeout=1)
    assert committed_values(bootstrap, topic) == ["one", "three"]


def test_offsets_move_with_the_transaction(bootstrap: str, make_topic: MakeTopic, fresh_name: FreshName) -> None:
    source, target, group = make_topic(), make_topic(), fresh_name("group")
    fill(bootstrap, source, 4)
    consumer = KafkaConsumer(
        source, bootstrap_servers=bootstrap, group_id=group, auto_offset_reset="earliest", enable_auto_commit=False
    )
    got: list[Any] = []
    while len(got) < 4:
        for records in consumer.poll(timeout_ms=500).values():
            got.extend(records)
    producer = KafkaProducer(bootstrap_servers=bootstrap, transactional_id=fresh_name("txn"))
    producer.init_transactions()
    here = TopicPartition(source, 0)
    for commit, offset in ((False, 4), (True, 3)):
        producer.begin_transaction()
        producer.send(target, str(commit).encode())
        producer.send_offsets_to_transaction({here: OffsetAndMetadata(offset, "", -1)}, consumer.group_metadata())
        if commit:
            producer.commit_transaction()
        else:
            producer.abort_transaction()
        # This client does not ask for stable offsets, so it may look before the end of the transaction is everywhere.
        eventually(partial(_committed, consumer, here, 3 if commit else None), "the offset is there")
    producer.close(timeout=5)
    consumer.close(autocommit=False)
    assert committed_values(bootstrap, target) == ["True"]


def _committed(consumer: KafkaConsumer, here: TopicPartition, expected: int | None) -> bool:
    return bool(consumer.committed(here) == expected)


def test_a_hung_transaction_is_found_described_and_aborted(
    bootstrap: str, manager: KafkaAdminClient, topic: str, fresh_name: FreshName
) -> None:
    name, here = fresh_name("txn"), TopicPartition(topic, 0)
    hung = KafkaProducer(bootstrap_servers=bootstrap, transactional_id=name, transaction_timeout_ms=300_000)
    hung.init_transactions()
    hung.begin_transaction()
    hung.send(topic, b"hung").get(WAIT_SECONDS)
    fill(bootstrap, topic, 1)
    assert committed_values(bootstrap, topic) == []

    listed = {t.transactional_id: t for found in manager.list_transactions().values() for t in found}
    assert listed[name].state.value == "Ongoing"
    described = manager.describe_transactions([name])[name]
    assert described.topic_partitions == {here}
    assert described.producer_id == listed[name].producer_id
    producers = manager.describe_producers([here])[here].active_producers
    (state,) = [p for p in producers if p.producer_id == described.producer_id]
    assert state.current_transaction_start_offset == 0

    manager.abort_transaction(AbortTransactionSpec(here, state.producer_id, state.producer_epoch))
    eventually(lambda: committed_values(bootstrap, topic) == ["0"], "the way is free")
    hung.close(timeout=1)
    with pytest.raises(TransactionalIdNotFoundError):
        manager.describe_transactions([fresh_name("nobody")])

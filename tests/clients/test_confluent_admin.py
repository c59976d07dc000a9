"""confluent-kafka: what its AdminClient asks of a broker."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import (
    ConsumerGroupTopicPartitions,
    IsolationLevel,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
)

from tests.clients.conftest import WAIT_SECONDS, FreshName, MakeTopic, eventually
from tests.clients.librdkafka import PROTOCOLS, new_consumer, new_producer, owned_by, poll_until, read, read_all, send


def result(futures: dict[Any, Any]) -> Any:
    (future,) = futures.values()
    return future.result(WAIT_SECONDS)


def refusal(futures: dict[Any, Any]) -> str:
    with pytest.raises(KafkaException) as refused:
        result(futures)
    return str(refused.value.args[0].name())


def config_of(admin: AdminClient, topic: str) -> dict[str, Any]:
    return dict(result(admin.describe_configs([ConfigResource(ConfigResource.Type.TOPIC, topic)])))


def test_a_topic_is_made_listed_described_and_deleted(admin: AdminClient, fresh_name: FreshName) -> None:
    name = fresh_name("topic")
    result(admin.create_topics([NewTopic(name, num_partitions=3, replication_factor=1)]))
    eventually(lambda: name in admin.list_topics(timeout=10).topics, "it is listed")
    assert len(admin.list_topics(timeout=10).topics[name].partitions) == 3

    described = result(admin.describe_topics(TopicCollection([name])))
    assert (described.name, len(described.partitions), described.is_internal) == (name, 3, False)
    assert all(partition.leader is not None for partition in described.partitions)

    result(admin.delete_topics([name], operation_timeout=10))
    eventually(lambda: name not in admin.list_topics(timeout=10).topics, "it is gone")
    assert refusal(admin.delete_topics([name], operation_timeout=10)) == "UNKNOWN_TOPIC_OR_PART"
    assert refusal(admin.describe_topics(TopicCollection([name]))) == "UNKNOWN_TOPIC_OR_PART"


def test_a_recreated_topic_is_empty(bootstrap: str, admin: AdminClient, topic: str) -> None:
    send(new_producer(bootstrap), topic, [b"before"])
    result(admin.delete_topics([topic], operation_timeout=10))
    result(admin.create_topics([NewTopic(topic, num_partitions=1, replication_factor=1)]))
    assert read_all(bootstrap, topic) == []
    send(new_producer(bootstrap), topic, [b"after"])
    assert [(m.offset(), m.value()) for m in read_all(bootstrap, topic)] == [(0, b"after")]


def test_invalid_topics_are_refused(admin: AdminClient, topic: str, fresh_name: FreshName) -> None:
    assert refusal(admin.create_topics([NewTopic(topic, num_partitions=1)])) == "TOPIC_ALREADY_EXISTS"
    assert refusal(admin.create_topics([NewTopic("no spaces", num_partitions=1)])) == "TOPIC_EXCEPTION"
    assert refusal(admin.create_topics([NewTopic("x" * 250, num_partitions=1)])) == "TOPIC_EXCEPTION"
    nodes = len(admin.list_topics(timeout=10).brokers)
    many = NewTopic(fresh_name("copies"), num_partitions=1, replication_factor=nodes + 1)
    assert refusal(admin.create_topics([many])) == "INVALID_REPLICATION_FACTOR"
    odd = NewTopic(fresh_name("odd"), num_partitions=1, config={"retention.ms": "soon"})
    assert refusal(admin.create_topics([odd])) == "INVALID_CONFIG"


def test_asking_whether_a_topic_could_be_made_makes_none(admin: AdminClient, fresh_name: FreshName) -> None:
    name = fresh_name("only-asked")
    result(admin.create_topics([NewTopic(name, num_partitions=2)], validate_only=True))
    assert name not in admin.list_topics(timeout=10).topics


def test_partitions_are_added_and_never_taken_away(bootstrap: str, admin: AdminClient, topic: str) -> None:
    result(admin.create_partitions([NewPartitions(topic, 4)]))
    eventually(lambda: len(admin.list_topics(topic, timeout=10).topics[topic].partitions) == 4, "it has grown")
    send(new_producer(bootstrap), topic, [b"x"], partition=3)
    assert len(read_all(bootstrap, topic, 4)) == 1
    assert refusal(admin.create_partitions([NewPartitions(topic, 2)])) == "INVALID_PARTITIONS"


def test_configuration_is_described_and_altered(admin: AdminClient, make_topic: MakeTopic) -> None:
    topic = make_topic(config={"retention.ms": "3600000"})
    config = config_of(admin, topic)
    assert config["retention.ms"].value == "3600000"
    assert not config["retention.ms"].is_default
    assert config["cleanup.policy"].value == "delete"
    assert config["cleanup.policy"].is_default

    def change(*entries: ConfigEntry) -> None:
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=list(entries))
        result(admin.incremental_alter_configs([resource]))

    change(
        ConfigEntry("retention.bytes", "1048576", incremental_operation=AlterConfigOpType.SET),
        ConfigEntry("cleanup.policy", "compact", incremental_operation=AlterConfigOpType.APPEND),
    )
    eventually(lambda: config_of(admin, topic)["retention.bytes"].value == "1048576", "it is changed")
    config = config_of(admin, topic)
    assert config["retention.ms"].value == "3600000"
    assert set(config["cleanup.policy"].value.split(",")) == {"delete", "compact"}

    change(
        ConfigEntry("retention.ms", None, incremental_operation=AlterConfigOpType.DELETE),
        ConfigEntry("cleanup.policy", "delete", incremental_operation=AlterConfigOpType.SUBTRACT),
    )
    eventually(lambda: config_of(admin, topic)["retention.ms"].is_default, "it is changed back")
    assert config_of(admin, topic)["cleanup.policy"].value == "compact"

    bad = [ConfigEntry("retention.ms", "soon", incremental_operation=AlterConfigOpType.SET)]
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=bad)
    assert refusal(admin.incremental_alter_configs([resource])) == "INVALID_CONFIG"


def test_the_default_of_replicas_in_sync_is_that_of_all_brokers(admin: AdminClient, topic: str) -> None:
    shown = config_of(admin, topic)
    assert not shown["min.insync.replicas"].is_default  # As in Kafka 4.1 and newer.
    assert ConfigSource(shown["min.insync.replicas"].source).name == "DYNAMIC_DEFAULT_BROKER_CONFIG"


def test_the_broker_describes_its_configuration(admin: AdminClient) -> None:
    (broker,) = list(admin.list_topics(timeout=10).brokers)[:1]
    config = result(admin.describe_configs([ConfigResource(ConfigResource.Type.BROKER, str(broker))]))
    assert "auto.create.topics.enable" in config


def test_broker_configurations_change_at_run_time(bootstrap: str, admin: AdminClient, topic: str) -> None:
    brokers = sorted(admin.list_topics(timeout=10).brokers)  # librdkafka has no name for all of them.

    def change(broker: int, name: str, value: str | None) -> dict[Any, Any]:
        kind = AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET
        entry = ConfigEntry(name, value, incremental_operation=kind)
        place = ConfigResource(ConfigResource.Type.BROKER, str(broker), incremental_configs=[entry])
        return dict(admin.incremental_alter_configs([place]))

    def shown(broker: int) -> tuple[str, list[str]]:
        found = result(admin.describe_configs([ConfigResource(ConfigResource.Type.BROKER, str(broker))]))
        entry = found["message.max.bytes"]
        return entry.value, [ConfigSource(one.source).name for one in entry.synonyms.values()]

    usual = config_of(admin, topic)["max.message.bytes"].value
    send(new_producer(bootstrap), topic, [b"x" * 50_000])
    for broker in brokers:
        result(change(broker, "message.max.bytes", "30000"))
    try:
        eventually(lambda: config_of(admin, topic)["max.message.bytes"].value == "30000", "topics have a new default")
        assert ConfigSource(config_of(admin, topic)["max.message.bytes"].source).name == "DYNAMIC_BROKER_CONFIG"
        for broker in brokers:
            eventually(lambda at=broker: shown(at)[0] == "30000", "the broker shows it")  # type: ignore[misc]
        with pytest.raises(AssertionError, match="MSG_SIZE_TOO_LARGE"):
            send(new_producer(bootstrap), topic, [b"x" * 50_000])
    finally:
        for broker in brokers:
            result(change(broker, "message.max.bytes", None))
    for broker in brokers:
        eventually(lambda at=broker: shown(at)[0] != "30000", "the broker shows the value of the start")  # type: ignore[misc]
    assert config_of(admin, topic)["max.message.bytes"].value == usual
    send(new_producer(bootstrap), topic, [b"x" * 50_000])

    assert refusal(change(brokers[0], "num.partitions", "3")) == "INVALID_REQUEST"
    assert refusal(change(brokers[0], "log.retention.ms", "soon")) == "INVALID_CONFIG"
    assert refusal(change(brokers[0], "unheard.of", "1")) == "INVALID_CONFIG"


def test_records_are_deleted_up_to_an_offset(bootstrap: str, admin: AdminClient, topic: str) -> None:
    send(new_producer(bootstrap), topic, [str(n) for n in range(10)])
    assert result(admin.delete_records([TopicPartition(topic, 0, 4)])).low_watermark == 4
    consumer = new_consumer(bootstrap, f"{topic}-x")
    assert consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=10) == (4, 10)
    consumer.close()
    assert [m.offset() for m in read_all(bootstrap, topic)] == [4, 5, 6, 7, 8, 9]
    assert refusal(admin.delete_records([TopicPartition(topic, 0, 99)])) == "OFFSET_OUT_OF_RANGE"
    assert result(admin.delete_records([TopicPartition(topic, 0, -1)])).low_watermark == 10
    assert read_all(bootstrap, topic) == []


def test_offsets_are_listed_by_what_they_mean(bootstrap: str, admin: AdminClient, topic: str) -> None:
    producer = new_producer(bootstrap)
    for at_ms in (3000, 9000, 5000):
        send(producer, topic, [b"x"], timestamp=at_ms)

    def offset(spec: OffsetSpec) -> int:
        asked = {TopicPartition(topic, 0): spec}
        return int(result(admin.list_offsets(asked, isolation_level=IsolationLevel.READ_UNCOMMITTED)).offset)

    assert offset(OffsetSpec.earliest()) == 0
    assert offset(OffsetSpec.latest()) == 3
    assert offset(OffsetSpec.max_timestamp()) == 1
    assert offset(OffsetSpec.for_timestamp(4000)) == 1
    assert offset(OffsetSpec.for_timestamp(9001)) == -1


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_groups_are_listed_described_and_deleted(
    bootstrap: str, admin: AdminClient, topic: str, fresh_name: FreshName, protocol: str
) -> None:
    group = fresh_name("group")
    member = new_consumer(bootstrap, group, client_id="the-member", group_protocol=protocol)
    member.subscribe([topic])
    send(new_producer(bootstrap), topic, [b"x"])
    read(member, 1)
    member.commit(asynchronous=False)
    poll_until([member], lambda: owned_by(member) == {0})

    described = result(admin.describe_consumer_groups([group]))
    assert described.state.name == "STABLE"
    assert described.type.name == protocol.upper()
    assert described.partition_assignor == ("range" if protocol == "classic" else "uniform")
    assert [m.client_id for m in described.members] == ["the-member"]
    assert [(p.topic, p.partition) for p in described.members[0].assignment.topic_partitions] == [(topic, 0)]
    listed = admin.list_consumer_groups().result(WAIT_SECONDS).valid
    assert {("STABLE", protocol.upper())} == {(g.state.name, g.type.name) for g in listed if g.group_id == group}
    assert refusal(admin.delete_consumer_groups([group])) == "NON_EMPTY_GROUP"

    member.close()
    assert result(admin.describe_consumer_groups([group])).state.name == "EMPTY"
    result(admin.delete_consumer_groups([group]))
    assert group not in {g.group_id for g in admin.list_consumer_groups().result(WAIT_SECONDS).valid}
    assert refusal(admin.delete_consumer_groups([group])) == "GROUP_ID_NOT_FOUND"


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_offsets_of_a_group_are_listed_and_altered(
    bootstrap: str, admin: AdminClient, make_topic: MakeTopic, fresh_name: FreshName, protocol: str
) -> None:
    topic, group = make_topic(partitions=2), fresh_name("group")
    send(new_producer(bootstrap), topic, [str(n) for n in range(10)], partition=0)
    wanted = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0, 6), TopicPartition(topic, 1, 0)])
    result(admin.alter_consumer_group_offsets([wanted]))
    listed = result(admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)]))
    assert {(p.partition, p.offset) for p in listed.topic_partitions} == {(0, 6), (1, 0)}

    member = new_consumer(bootstrap, group, group_protocol=protocol)
    member.subscribe([topic])
    assert [int(m.value()) for m in read(member, 4)] == [6, 7, 8, 9]
    # A group with members moves its own offsets.
    refused = result(admin.alter_consumer_group_offsets([wanted]))
    assert {p.error.name() for p in refused.topic_partitions} == {"UNKNOWN_MEMBER_ID"}
    member.close()


def test_the_cluster_is_described(bootstrap: str, admin: AdminClient) -> None:
    cluster = admin.describe_cluster().result(WAIT_SECONDS)
    assert cluster.cluster_id
    assert bootstrap in {f"{node.host}:{node.port}" for node in cluster.nodes}
    assert cluster.controller.id in {node.id for node in cluster.nodes}

"""Requests of administrators: directories, configurations, the quorum, and what a client may do."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from longhall.broker.topic_administration import create_topic
from longhall.doors.kafka.wire.messages import (
    cluster,
    configs,
    group_admin,
    offsets,
    quorum,
    reassignments,
    storage,
    topics,
    versions,
)
from tests.doors.kafka.asking import ask, produce
from tests.doors.two_nodes import FOLLOWER, LEADER, Told, TwoNodes, two_nodes

TOPIC, BROKER, LOGGER, CLIENT_METRICS = 2, 4, 8, 16
INVALID_CONFIG, INVALID_REQUEST = 40, 42
NOT_ASKED = -(1 << 31)
UNKNOWN_TOPIC, LOG_DIR_NOT_FOUND, UNSUPPORTED_VERSION = 3, 57, 35
NOT_AVAILABLE, NO_ELIGIBLE, NOT_NEEDED = 80, 83, 84
INVALID_ASSIGNMENT, NO_REASSIGNMENT = 39, 85


async def test_a_partition_is_in_the_only_directory(tmp_path: Path) -> None:
    async with two_nodes(tmp_path) as two:
        await create_topic(two.leader.hall, "t", 1, {})
        here = (await ask(two.leader, storage.DescribeLogDirsRequest(topics=None), 5)).results[0]
        assert not here.is_cordoned
        rows = []
        for path, name in ((here.log_dir, "t"), ("/elsewhere", "t"), (here.log_dir, "unknown")):
            topic = storage.AlterReplicaLogDirsRequestTopic(name=name, partitions=[0])
            request = storage.AlterReplicaLogDirsRequest(
                dirs=[storage.AlterReplicaLogDirsRequestDir(path=path, topics=[topic])]
            )
            rows += (await ask(two.leader, request, 2)).results[0].partitions
        assert [row.error_code for row in rows] == [0, LOG_DIR_NOT_FOUND, UNKNOWN_TOPIC]


async def test_a_partition_has_the_replicas_of_its_group(tmp_path: Path) -> None:
    async with two_nodes(tmp_path) as two:
        await create_topic(two.leader.hall, "t", 1, {})
        asked = ([3, LEADER, FOLLOWER], [LEADER], None)
        rows = []
        for name, replicas in (*(("t", each) for each in asked), ("unknown", [LEADER])):
            partition = reassignments.AlterPartitionReassignmentsRequestPartition(partition_index=0, replicas=replicas)
            topic = reassignments.AlterPartitionReassignmentsRequestTopic(name=name, partitions=[partition])
            request = reassignments.AlterPartitionReassignmentsRequest(topics=[topic])
            rows += (await ask(two.leader, request, 1)).responses[0].partitions
        assert [row.error_code for row in rows] == [0, INVALID_ASSIGNMENT, NO_REASSIGNMENT, UNKNOWN_TOPIC]
        assert "[1, 2, 3] (hall)" in (rows[1].error_message or "")
        listed = await ask(two.leader, reassignments.ListPartitionReassignmentsRequest(topics=None), 0)
        assert (listed.error_code, listed.topics) == (0, [])


async def test_resources_with_configurations_are_listed(tmp_path: Path) -> None:
    async with two_nodes(tmp_path) as two:
        await create_topic(two.leader.hall, "t", 1, {})
        answer = await ask(two.leader, configs.ListConfigResourcesRequest(), 1)
        found = [(row.resource_type, row.resource_name) for row in answer.config_resources]
        brokers = [(kind, str(broker)) for kind in (LOGGER, BROKER) for broker in (LEADER, FOLLOWER)]
        assert found == [(TOPIC, "t"), *brokers]
        for types, version in (([CLIENT_METRICS], 1), ([], 0)):
            answer = await ask(two.leader, configs.ListConfigResourcesRequest(resource_types=types), version)
            assert (answer.error_code, answer.config_resources) == (0, [])
        wrong = await ask(two.leader, configs.ListConfigResourcesRequest(resource_types=[7]), 1)
        assert wrong.error_code == UNSUPPORTED_VERSION


async def test_the_quorum_is_described_by_the_leader(tmp_path: Path) -> None:
    async with two_nodes(tmp_path) as two:
        partition = quorum.DescribeQuorumRequestPartition(partition_index=0)
        request = quorum.DescribeQuorumRequest(
            topics=[
                quorum.DescribeQuorumRequestTopic(topic_name=name, partitions=[partition])
                for name in ("__cluster_metadata", "t")
            ]
        )
        answer = await ask(two.follower, request, 2)
        (known,), (unknown,) = (topic.partitions for topic in answer.topics)
        assert (known.error_code, known.leader_id, known.error_message) == (0, LEADER, None)
        assert [replica.replica_id for replica in known.current_voters] == [LEADER, FOLLOWER, 3]
        assert known.current_voters[0].log_end_offset == known.high_watermark == two.leader.hall.shards[0].committed
        assert unknown.error_code == UNKNOWN_TOPIC
        assert [node.listeners[0].port for node in answer.nodes] == [two.leader.kafka.port, two.follower.kafka.port]


async def test_who_asks_is_told_what_it_may_do(tmp_path: Path) -> None:
    async with two_nodes(tmp_path) as two:
        await create_topic(two.leader.hall, "t", 1, {})
        for asked in (False, True):
            request = cluster.MetadataRequest(
                topics=[cluster.MetadataRequestTopic(name="t")],
                include_topic_authorized_operations=asked,
                include_cluster_authorized_operations=asked,
            )
            answer = await ask(two.leader, request, 9)
            described = await ask(
                two.leader, cluster.DescribeClusterRequest(include_cluster_authorized_operations=asked), 1
            )
            groups = group_admin.DescribeGroupsRequest(groups=["g"], include_authorized_operations=asked)
            (group,) = (await ask(two.leader, groups, 5)).groups
            told = (
                answer.topics[0].topic_authorized_operations,
                answer.cluster_authorized_operations,
                described.cluster_authorized_operations,
                group.authorized_operations,
            )
            assert (NOT_ASKED in told) is not asked
            assert not asked or told == (0b110111111000, 0b1111110100000, 0b1111110100000, 0b110101001000)


async def test_synonyms_are_for_those_who_ask_and_success_has_no_message(tmp_path: Path) -> None:
    async with two_nodes(tmp_path) as two:
        await create_topic(two.leader.hall, "t", 1, {"retention.ms": "5"})
        resource = configs.DescribeConfigsRequestResource(
            resource_type=TOPIC, resource_name="t", configuration_keys=["retention.ms"]
        )
        for asked, count in ((False, 0), (True, 2)):
            request = configs.DescribeConfigsRequest(resources=[resource], include_synonyms=asked)
            (row,) = (await ask(two.leader, request, 4)).results
            assert (row.error_message, row.configs[0].value, len(row.configs[0].synonyms)) == (None, "5", count)
        found = await ask(two.leader, cluster.FindCoordinatorRequest(coordinator_keys=["g"]), 4)
        assert found.coordinators[0].error_message is None
        assert (await ask(two.leader, cluster.FindCoordinatorRequest(key="g"), 2)).error_message is None
        made = topics.CreateTopicsRequest(topics=[topics.CreateTopicsRequestTopic(name="new", num_partitions=1)])
        made.topics[0].replication_factor = -1
        assert (await ask(two.leader, made, 5)).topics[0].error_message is None


async def test_elections(tmp_path: Path) -> None:
    """Broker 1 is the preferred leader, and in sync. Nothing is transferred here: a cluster test does that."""
    async with two_nodes(tmp_path) as two:
        await create_topic(two.leader.hall, "t", 2, {})

        async def elect(kind: int, *numbers: int) -> list[int]:
            wanted = [topics.ElectLeadersRequestTopic(topic="t", partitions=list(numbers))] if numbers else None
            request = topics.ElectLeadersRequest(election_type=kind, topic_partitions=wanted, timeout_ms=100)
            answer = await ask(two.leader, request, 2)
            return [row.error_code for topic in answer.replica_election_results for row in topic.partition_result]

        assert await elect(0, 0, 9) == [NOT_NEEDED, UNKNOWN_TOPIC]
        assert await elect(1, 1) == [NOT_NEEDED]
        assert await elect(0) == []
        told = two.leader.hall.leadership
        assert isinstance(told, Told)
        told.leader = 0
        assert await elect(1, 0) == [NO_ELIGIBLE]
        told.leader = LEADER
        told.replicas = lambda shard: [3, LEADER, FOLLOWER]  # type: ignore[method-assign]
        assert await elect(0, 0, 1) == [NOT_AVAILABLE, NOT_AVAILABLE]
        assert await elect(0) == [NOT_AVAILABLE, NOT_AVAILABLE]


async def test_special_offsets_of_tiered_storage_are_unknown(tmp_path: Path) -> None:
    async with two_nodes(tmp_path) as two:
        await create_topic(two.leader.hall, "t", 1, {})
        await produce(two.leader, ("t", 0))
        for special in (-5, -6):
            part = offsets.ListOffsetsRequestPartition(timestamp=special)
            row = offsets.ListOffsetsRequestTopic(name="t", partitions=[part])
            (found,) = (await ask(two.leader, offsets.ListOffsetsRequest(topics=[row]), 11)).topics[0].partitions
            assert (found.error_code, found.offset) == (0, -1)


async def _alter(
    two: TwoNodes, kind: int, name: str, value: str, broker: str = str(FOLLOWER)
) -> tuple[int, str | None]:
    config = configs.IncrementalAlterConfigsRequestConfig(name=name, config_operation=0, value=value)
    resource = configs.IncrementalAlterConfigsRequestResource(
        resource_type=kind, resource_name=broker, configs=[config]
    )
    request = configs.IncrementalAlterConfigsRequest(resources=[resource])
    (row,) = (await ask(two.follower, request, 1)).responses
    return row.error_code, row.error_message


async def _describe(two: TwoNodes, kind: int, name: str) -> tuple[int, dict[str, str]]:
    resource = configs.DescribeConfigsRequestResource(resource_type=kind, resource_name=name, configuration_keys=None)
    (row,) = (await ask(two.follower, configs.DescribeConfigsRequest(resources=[resource]), 4)).results
    return row.error_code, {config.name: config.value for config in row.configs}


async def test_each_broker_shows_its_own_settings_and_refuses_to_change_static_ones(tmp_path: Path) -> None:
    async with two_nodes(tmp_path) as two:
        code, shown = await _describe(two, BROKER, str(FOLLOWER))
        assert code == 0
        assert shown["advertised.listeners"] == f"PLAINTEXT://127.0.0.1:{two.follower.kafka.port}"
        assert shown["node.id"] == str(FOLLOWER)
        assert (await _describe(two, BROKER, str(LEADER)))[0] == INVALID_REQUEST
        # Kafka 4.1 and newer store this default for all brokers when the cluster is made.
        assert await _describe(two, BROKER, "") == (0, {"min.insync.replicas": "1"})
        code, message = await _alter(two, BROKER, "num.partitions", "5")
        assert (code, "num.partitions" in (message or "")) == (INVALID_REQUEST, True)
        assert (await _alter(two, BROKER, "num.partitions", "5", ""))[0] == INVALID_REQUEST
        assert (await _alter(two, BROKER, "log.cleanup.policy", "compact", ""))[0] == INVALID_REQUEST
        assert (await _alter(two, BROKER, "unheard.of", "5"))[0] == INVALID_CONFIG
        assert (await _alter(two, BROKER, "log.retention.ms", "soon"))[0] == INVALID_CONFIG
        assert (await _alter(two, BROKER, "log.retention.ms", "5", "7"))[0] == INVALID_REQUEST
        assert two.leader.hall.catalogue.brokers == {}


async def test_a_change_of_broker_configurations_is_committed_by_the_leader(tmp_path: Path) -> None:
    async with two_nodes(tmp_path) as two:
        assert await _alter(two, BROKER, "log.retention.ms", "5000", "") == (0, None)
        assert await _alter(two, BROKER, "log.retention.ms", "7000", str(LEADER)) == (0, None)
        assert two.hand.asked == ["ConfigureBroker", "ConfigureBroker"]
        assert two.leader.hall.catalogue.brokers == {
            "": {"log.retention.ms": "5000"},
            str(LEADER): {"log.retention.ms": "7000"},
        }
        made = await create_topic(two.leader.hall, "t", 1, {})
        assert made is not None
        assert made.options.retention_ms == 7000


async def test_the_level_of_a_logger_is_changed_at_run_time(tmp_path: Path) -> None:
    logger = logging.getLogger("longhall.kafka")
    before = logger.level
    try:
        async with two_nodes(tmp_path) as two:
            assert await _alter(two, LOGGER, "longhall.kafka", "DEBUG") == (0, None)
            assert logger.level == logging.DEBUG
            assert (await _describe(two, LOGGER, str(FOLLOWER)))[1]["longhall.kafka"] == "DEBUG"
            assert (await _alter(two, LOGGER, "longhall.kafka", "LOUD"))[0] == INVALID_CONFIG
            assert (await _alter(two, LOGGER, "unheard.of", "INFO"))[0] == INVALID_CONFIG
            assert logger.level == logging.DEBUG
    finally:
        logger.setLevel(before)


@pytest.mark.parametrize(
    ("name", "version", "error"),
    [
        ("apache-kafka-java", "4.1.0", 0),
        ("a", "1", 0),
        ("", "1", 42),
        ("java", "", 42),
        ("java 4", "1", 42),
        ("-a", "1", 42),
    ],
)
async def test_clients_are_named_as_kafka_wants(tmp_path: Path, name: str, version: str, error: int) -> None:
    async with two_nodes(tmp_path) as two:
        request = versions.ApiVersionsRequest(client_software_name=name, client_software_version=version)
        answer = await ask(two.leader, request, 3)
        assert (answer.error_code, bool(answer.api_keys)) == (error, not error)
        assert (await ask(two.leader, request, 0)).error_code == 0, "older versions have no names"


async def test_the_address_of_a_broker_is_none_of_a_controller(tmp_path: Path) -> None:
    async with two_nodes(tmp_path) as two:
        for endpoint_type, error in ((1, 0), (2, 114), (3, 115)):
            answer = await ask(two.leader, cluster.DescribeClusterRequest(endpoint_type=endpoint_type), 1)
            assert (answer.error_code, bool(answer.brokers)) == (error, not error)

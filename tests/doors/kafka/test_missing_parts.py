"""Requests that leave something out, or name what is not there: the answers of Apache Kafka 4.3, compared with it."""

from __future__ import annotations

from pathlib import Path

from longhall.doors.kafka.topic_operations import create_topic
from longhall.doors.kafka.wire.messages.client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasRequestComponent,
)
from longhall.doors.kafka.wire.messages.cluster import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsRequestTopic,
    MetadataRequest,
    MetadataRequestTopic,
)
from longhall.doors.kafka.wire.messages.commits import OffsetDeleteRequest
from longhall.doors.kafka.wire.messages.group_admin import DeleteGroupsRequest, ListGroupsRequest
from longhall.doors.kafka.wire.messages.groups import SyncGroupRequest
from longhall.doors.kafka.wire.messages.offsets import (
    ListOffsetsRequest,
    ListOffsetsRequestPartition,
    ListOffsetsRequestTopic,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochRequestPartition,
    OffsetForLeaderEpochRequestTopic,
)
from longhall.doors.kafka.wire.messages.scram_users import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsRequestUpsertion,
)
from longhall.doors.kafka.wire.messages.share_offsets import (
    AlterShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)
from longhall.doors.kafka.wire.messages.storage import DescribeLogDirsRequest
from longhall.doors.kafka.wire.messages.topics import (
    CreatePartitionsRequest,
    CreatePartitionsRequestAssignment,
    CreatePartitionsRequestTopic,
    CreateTopicsRequest,
    CreateTopicsRequestConfig,
    CreateTopicsRequestTopic,
    DeleteTopicsRequest,
    DeleteTopicsRequestTopic,
)
from longhall.doors.kafka.wire.messages.transactions import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnRequestTopic,
    EndTxnRequest,
    InitProducerIdRequest,
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from longhall.doors.kafka.wire.messages.versions import ApiVersionsRequest
from tests.doors.kafka.asking import ask, produce
from tests.doors.two_nodes import LEADER, two_nodes

INCONSISTENT_GROUP_PROTOCOL, UNKNOWN_MEMBER_ID, UNSUPPORTED_VERSION, INVALID_CONFIG = 23, 25, 35, 40
UNKNOWN_TOPIC, INVALID_TOPIC, INVALID_GROUP_ID, INVALID_REQUEST, UNKNOWN_TOPIC_ID = 3, 17, 24, 42, 100
INVALID_PARTITIONS, GROUP_ID_NOT_FOUND, UNACCEPTABLE_CREDENTIAL = 37, 69, 93


async def test_a_deleted_topic_is_named_by_its_name_or_by_its_id(tmp_path: Path) -> None:
    async with two_nodes(tmp_path) as two:
        node = two.leader
        await create_topic(node.hall, LEADER, "t", {})
        topic_id = node.hall.topic("t").topic_id  # type: ignore[union-attr]
        both, neither = DeleteTopicsRequestTopic(name="t", topic_id=topic_id), DeleteTopicsRequestTopic(name=None)
        unknown = DeleteTopicsRequestTopic(name=None, topic_id=b"\1" * 16)
        answer = await ask(node, DeleteTopicsRequest(topics=[both, neither, unknown]), 6)
        assert [(row.name, row.error_code) for row in answer.responses] == [
            ("t", INVALID_REQUEST),
            (None, INVALID_REQUEST),
            (None, UNKNOWN_TOPIC_ID),
        ]
        assert "t" in node.hall.routes


async def test_groups_without_an_id_have_no_offsets(tmp_path: Path) -> None:
    async with two_nodes(tmp_path) as two:
        node = two.leader
        assert (await ask(node, OffsetDeleteRequest(), 0)).error_code == INVALID_GROUP_ID
        assert (await ask(node, AlterShareGroupOffsetsRequest(), 0)).error_code == INVALID_GROUP_ID
        assert (await ask(node, DeleteShareGroupOffsetsRequest(), 0)).error_code == INVALID_GROUP_ID
        described = DescribeShareGroupOffsetsRequest(groups=[DescribeShareGroupOffsetsRequestGroup(topics=None)])
        assert (await ask(node, described, 0)).groups[0].error_code == INVALID_GROUP_ID
        assert (await ask(node, ListGroupsRequest(), 5)).groups == []


async def test_transactions_without_an_id_are_invalid(tmp_path: Path) -> None:
    async with two_nodes(tmp_path) as two:
        node = two.leader
        await create_topic(node.hall, LEADER, "t", {})
        assert (await ask(node, InitProducerIdRequest(transactional_id=""), 4)).error_code == INVALID_REQUEST
        assert (await ask(node, AddOffsetsToTxnRequest(group_id="g"), 3)).error_code == INVALID_REQUEST
        assert (await ask(node, EndTxnRequest(), 3)).error_code == INVALID_REQUEST
        topic = AddPartitionsToTxnRequestTopic(name="t", partitions=[0])
        added = await ask(node, AddPartitionsToTxnRequest(v3_and_below_topics=[topic]), 3)
        (row,) = added.results_by_topic_v3_and_below
        assert row.results_by_partition[0].partition_error_code == INVALID_REQUEST


async def test_an_unknown_topic_precedes_the_error_of_the_transaction(tmp_path: Path) -> None:
    async with two_nodes(tmp_path) as two:
        part = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=1)
        topic = TxnOffsetCommitRequestTopic(name="none", partitions=[part])
        request = TxnOffsetCommitRequest(transactional_id="x", group_id="g", producer_id=1, topics=[topic])
        answer = await ask(two.leader, request, 3)
        assert answer.topics[0].partitions[0].error_code == UNKNOWN_TOPIC


async def test_a_name_that_no_topic_can_have_is_invalid_rather_than_unknown(tmp_path: Path) -> None:
    async with two_nodes(tmp_path) as two:
        for name, code in (("no spaces", INVALID_TOPIC), ("none", UNKNOWN_TOPIC)):
            topics = [MetadataRequestTopic(name=name)]
            answer = await ask(two.leader, MetadataRequest(topics=topics, allow_auto_topic_creation=False), 12)
            assert [row.error_code for row in answer.topics] == [code]
            paged = DescribeTopicPartitionsRequest(topics=[DescribeTopicPartitionsRequestTopic(name=name)])
            assert [row.error_code for row in (await ask(two.leader, paged, 0)).topics] == [code]


async def test_the_directory_of_the_log_is_an_absolute_path(tmp_path: Path) -> None:
    async with two_nodes(tmp_path) as two:
        answer = await ask(two.leader, DescribeLogDirsRequest(topics=None), 4)
        assert Path(answer.results[0].log_dir).is_absolute()


async def test_a_configuration_of_a_new_topic_has_a_value(tmp_path: Path) -> None:
    async with two_nodes(tmp_path) as two:
        config = CreateTopicsRequestConfig(name="retention.ms", value=None)
        topic = CreateTopicsRequestTopic(name="t", num_partitions=1, replication_factor=1, configs=[config])
        answer = await ask(two.leader, CreateTopicsRequest(topics=[topic], timeout_ms=1000), 7)
        assert answer.topics[0].error_code == INVALID_CONFIG
        assert "t" not in two.leader.hall.routes


async def test_a_member_that_syncs_names_its_protocol(tmp_path: Path) -> None:
    async with two_nodes(tmp_path) as two:
        request = SyncGroupRequest(group_id="g", member_id="m", generation_id=1)
        assert (await ask(two.leader, request, 5)).error_code == INCONSISTENT_GROUP_PROTOCOL
        assert (await ask(two.leader, request, 4)).error_code == UNKNOWN_MEMBER_ID


async def test_quotas_of_an_unknown_entity_are_not_supported(tmp_path: Path) -> None:
    async with two_nodes(tmp_path) as two:
        component = DescribeClientQuotasRequestComponent(entity_type="planet", match_type=2, match=None)
        answer = await ask(two.leader, DescribeClientQuotasRequest(components=[component]), 1)
        assert (answer.error_code, answer.entries) == (UNSUPPORTED_VERSION, None)


async def test_a_salted_password_has_any_size_but_none(tmp_path: Path) -> None:
    async with two_nodes(tmp_path) as two:
        for salted, code in ((b"my-salted-password", 0), (b"", UNACCEPTABLE_CREDENTIAL)):
            put = AlterUserScramCredentialsRequestUpsertion(
                name="u", mechanism=2, iterations=4096, salt=b"my-salt", salted_password=salted
            )
            answer = await ask(two.leader, AlterUserScramCredentialsRequest(upsertions=[put]), 0)
            assert [row.error_code for row in answer.results] == [code]


async def test_the_versions_say_that_there_are_share_groups(tmp_path: Path) -> None:
    async with two_nodes(tmp_path) as two:
        request = ApiVersionsRequest(client_software_name="test", client_software_version="1")
        answer = await ask(two.leader, request, 4)
        assert ("share.version", 1) in [(row.name, row.max_version_level) for row in answer.finalized_features]
        assert ("share.version", 0) in [(row.name, row.min_version) for row in answer.supported_features]
        older = await ask(two.leader, request, 3)
        assert (len(older.finalized_features), older.supported_features) == (len(answer.finalized_features), [])


async def test_negative_timestamps_have_a_meaning_from_a_version_on(tmp_path: Path) -> None:
    async with two_nodes(tmp_path) as two:
        await create_topic(two.leader.hall, LEADER, "t", {})
        for timestamp, version, code in ((-3, 6, UNSUPPORTED_VERSION), (-3, 7, 0), (-7, 11, UNSUPPORTED_VERSION)):
            part = ListOffsetsRequestPartition(partition_index=0, timestamp=timestamp)
            topic = ListOffsetsRequestTopic(name="t", partitions=[part])
            answer = await ask(two.leader, ListOffsetsRequest(topics=[topic]), version)
            assert answer.topics[0].partitions[0].error_code == code


async def test_too_few_partitions_are_refused_before_their_assignment(tmp_path: Path) -> None:
    async with two_nodes(tmp_path) as two:
        await create_topic(two.leader.hall, LEADER, "t", {})
        assignment = CreatePartitionsRequestAssignment(broker_ids=[99])
        topic = CreatePartitionsRequestTopic(name="t", count=1, assignments=[assignment])
        answer = await ask(two.leader, CreatePartitionsRequest(topics=[topic], timeout_ms=1000), 3)
        assert answer.results[0].error_code == INVALID_PARTITIONS


async def test_a_group_that_is_deleted_twice_in_a_request_has_one_answer(tmp_path: Path) -> None:
    async with two_nodes(tmp_path) as two:
        answer = await ask(two.leader, DeleteGroupsRequest(groups_names=["a", "a"]), 2)
        assert [(row.group_id, row.error_code) for row in answer.results] == [("a", GROUP_ID_NOT_FOUND)]


async def test_an_epoch_before_all_records_ended_where_the_log_begins(tmp_path: Path) -> None:
    async with two_nodes(tmp_path) as two:
        await create_topic(two.leader.hall, LEADER, "t", {})
        assert await produce(two.leader, ("t", 0)) == [0]
        part = OffsetForLeaderEpochRequestPartition(partition=0, current_leader_epoch=-1, leader_epoch=0)
        request = OffsetForLeaderEpochRequest(topics=[OffsetForLeaderEpochRequestTopic(topic="t", partitions=[part])])
        (row,) = (await ask(two.leader, request, 4)).topics[0].partitions
        assert (row.leader_epoch, row.end_offset) == (0, 0)

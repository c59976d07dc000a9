"""The main hall's door and topics of other replication groups: it describes them, and stores nothing for them."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from longhall.broker.hall import Hall
from longhall.broker.producer_ids import take_producer_id
from longhall.broker.topic_administration import create_topic
from longhall.doors.kafka.handlers import add_partitions_to_txn
from longhall.doors.kafka.wire.apis import encode_request
from longhall.doors.kafka.wire.messages import cluster, commits, offsets, transaction_admin, transactions
from longhall.errors import Code
from longhall.node.assembly import Node
from tests.doors.hall_and_wings import FIRST, SECOND, ToldWings, broker_of, hall_and_wings
from tests.doors.kafka.asking import ask, batch, fetch, produce, produce_request
from tests.doors.two_nodes import FOLLOWER, LEADER, two_nodes

LEADER_NOT_AVAILABLE, NOT_LEADER, INVALID_TOPIC, NOT_ATTEMPTED, PRODUCER_FENCED = 5, 6, 17, 55, 90
PLACED = {"longhall.placement": "any-host"}


def assert_untouched(hall: Hall, topic: str) -> None:
    """Nothing of a placed topic is in the main hall but its entry."""
    for partition in hall.routes[topic]:
        assert partition.log.next_offset == 0
        assert partition.producers is None


async def test_metadata_tells_of_wings_and_what_they_keep(tmp_path: Path) -> None:
    async with hall_and_wings(tmp_path) as halls:
        main, told = halls.main, halls.told
        await create_topic(main.hall, "here", 1, {})
        await create_topic(main.hall, "there", 3, PLACED)
        ports = {
            1: main.kafka.port,
            broker_of(FIRST): halls.first.kafka.port,
            broker_of(SECOND): halls.second.kafka.port,
        }
        told.leaderless = {SECOND}
        for version in (1, 9, 12):
            answer = await ask(main, cluster.MetadataRequest(topics=None), version)
            assert {broker.node_id: broker.port for broker in answer.brokers} == ports
            assert answer.controller_id == 1
            here, there = answer.topics
            assert [part.leader_id for part in here.partitions] == [1]
            assert [part.leader_id for part in there.partitions] == [broker_of(FIRST), -1, broker_of(FIRST)]
            assert [part.error_code for part in there.partitions] == [0, LEADER_NOT_AVAILABLE, 0]
            assert there.error_code == 0
            first = there.partitions[0]
            assert (first.replica_nodes, first.isr_nodes) == (
                [broker_of(FIRST), broker_of(FIRST) + 1],
                [broker_of(FIRST)],
            )
        assert first.leader_epoch == halls.first.hall.shards[1].epoch
        assert first.offline_replicas == [broker_of(FIRST) + 1]

        paged = await ask(main, cluster.DescribeTopicPartitionsRequest(), 0)
        assert [part.leader_id for part in paged.topics[1].partitions] == [broker_of(FIRST), -1, broker_of(FIRST)]
        shown = await ask(main, cluster.DescribeClusterRequest(), 0)
        assert {broker.broker_id: broker.port for broker in shown.brokers} == ports
        found = await ask(main, cluster.FindCoordinatorRequest(coordinator_keys=["g"]), 4)
        assert [row.node_id for row in found.coordinators] == [1]


async def test_a_node_that_follows_tells_the_same(tmp_path: Path) -> None:
    async with two_nodes(tmp_path) as two:
        for number, node in ((LEADER, two.leader), (FOLLOWER, two.follower)):
            node.hall.feature_level = 3
            node.hall.wings = ToldWings(node.hall, {})
            two.told.leader = number
            await create_topic(node.hall, "there", 2, PLACED)
        two.told.leader = LEADER
        wanted = cluster.MetadataRequest(topics=[cluster.MetadataRequestTopic(name="there")])
        for refusal in (None, Code.NOT_READY):  # Carried to the leader, and answered from here.
            two.hand.refusal = refusal
            (topic,) = (await ask(two.follower, wanted, 9)).topics
            assert [part.leader_id for part in topic.partitions] == [broker_of(FIRST), broker_of(SECOND)]
            assert [part.leader_epoch for part in topic.partitions] == [7, 7]


async def test_records_of_placed_topics_are_refused_one_by_one(tmp_path: Path) -> None:
    async with hall_and_wings(tmp_path) as halls:
        main = halls.main
        here = await create_topic(main.hall, "here", 1, {})
        there = await create_topic(main.hall, "there", 2, PLACED)
        assert here is not None
        assert there is not None
        producer_id = await take_producer_id(main.hall)
        for version in (3, 9, 12):
            records = batch(producer_id=producer_id, sequence=7)
            assert await produce(main, ("there", 0), ("there", 1), version=version, records=records) == [NOT_LEADER] * 2
            assert await produce(main, ("there", 0), ("here", 0), version=version) == [NOT_LEADER, 0]
        assert await produce(main, (there.topic_id, 1), (here.topic_id, 0), version=13) == [NOT_LEADER, 0]
        assert await produce(main, ("there", 0), records=b"no batch at all") == [NOT_LEADER]

        for version in (4, 11, 12):
            (refused, found) = await fetch(main, ("there", 1), ("here", 0), version=version, wait_ms=20_000)
            assert refused == (NOT_LEADER, -1, 0)
            assert found[:2] == (0, 4)
            assert found[2] > 0
        by_id = await fetch(main, (there.topic_id, 0), (here.topic_id, 0), version=16)
        assert [code for code, _, _ in by_id] == [NOT_LEADER, 0]
        assert_untouched(main.hall, "there")
        assert main.hall.partitions[here.partitions[0]].high_watermark == 4


async def test_without_acks_a_refusal_closes_the_connection(tmp_path: Path) -> None:
    async with hall_and_wings(tmp_path) as halls:
        main = halls.main
        await create_topic(main.hall, "there", 2, PLACED)
        reader, writer = await asyncio.open_connection(main.kafka.host, main.kafka.port)
        writer.write(encode_request(1, "test", 9, produce_request([("there", 0)], batch(), acks=0)))
        async with asyncio.timeout(20):
            assert await reader.read() == b""
        writer.close()
        assert_untouched(main.hall, "there")


async def test_offsets_and_producers_are_asked_for_where_the_records_are(tmp_path: Path) -> None:
    async with hall_and_wings(tmp_path) as halls:
        main = halls.main
        await create_topic(main.hall, "here", 1, {})
        await create_topic(main.hall, "there", 2, PLACED)
        assert await produce(main, ("here", 0)) == [0]
        names = ("there", "here")
        listed = offsets.ListOffsetsRequest(
            topics=[
                offsets.ListOffsetsRequestTopic(
                    name=name, partitions=[offsets.ListOffsetsRequestPartition(timestamp=timestamp)]
                )
                for name in names
                for timestamp in (-1, -2, 0)
            ]
        )
        rows = [topic.partitions[0] for topic in (await ask(main, listed, 5)).topics]
        assert [(row.error_code, row.offset) for row in rows] == [(NOT_LEADER, -1)] * 3 + [(0, 1), (0, 0), (0, 0)]
        ends = offsets.OffsetForLeaderEpochRequest(
            topics=[
                offsets.OffsetForLeaderEpochRequestTopic(
                    topic=name, partitions=[offsets.OffsetForLeaderEpochRequestPartition(leader_epoch=1)]
                )
                for name in names
            ]
        )
        rows = [topic.partitions[0] for topic in (await ask(main, ends, 3)).topics]
        assert [(row.error_code, row.end_offset) for row in rows] == [(NOT_LEADER, -1), (0, 1)]
        described = transaction_admin.DescribeProducersRequest(
            topics=[transaction_admin.DescribeProducersRequestTopic(name=name, partition_indexes=[0]) for name in names]
        )
        rows = [topic.partitions[0] for topic in (await ask(main, described, 0)).topics]
        assert [row.error_code for row in rows] == [NOT_LEADER, 0]
        trimmed = offsets.DeleteRecordsRequest(
            topics=[
                offsets.DeleteRecordsRequestTopic(
                    name=name, partitions=[offsets.DeleteRecordsRequestPartition(partition_index=0, offset=-1)]
                )
                for name in names
            ]
        )
        rows = [topic.partitions[0] for topic in (await ask(main, trimmed, 1)).topics]
        assert [(row.error_code, row.low_watermark) for row in rows] == [(NOT_LEADER, -1), (0, 1)]
        assert_untouched(main.hall, "there")


async def _begin(node: Node) -> tuple[int, int]:
    """A producer of the transactional id `t`."""
    request = transactions.InitProducerIdRequest(transactional_id="t", transaction_timeout_ms=60_000)
    answer = await ask(node, request, 2)
    assert answer.error_code == 0
    return answer.producer_id, answer.producer_epoch


async def test_below_feature_level_6_a_placed_topic_is_in_no_transaction_but_its_offsets_may_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(add_partitions_to_txn, "may_transact_in_groups", lambda hall: False)
    async with hall_and_wings(tmp_path) as halls:
        main = halls.main
        await create_topic(main.hall, "here", 1, {})
        await create_topic(main.hall, "there", 2, PLACED)
        who, epoch = await _begin(main)
        topics = [transactions.AddPartitionsToTxnRequestTopic(name=name, partitions=[0]) for name in ("there", "here")]
        old = transactions.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id="t",
            v3_and_below_producer_id=who,
            v3_and_below_producer_epoch=epoch,
            v3_and_below_topics=topics,
        )
        rows = (await ask(main, old, 3)).results_by_topic_v3_and_below
        codes = [row.results_by_partition[0].partition_error_code for row in rows]
        assert codes == [INVALID_TOPIC, NOT_ATTEMPTED]
        one = transactions.AddPartitionsToTxnRequestTransaction(
            transactional_id="t", producer_id=who, producer_epoch=epoch, topics=topics
        )
        new = transactions.AddPartitionsToTxnRequest(transactions=[one])
        (result,) = (await ask(main, new, 4)).results_by_transaction
        codes = [row.results_by_partition[0].partition_error_code for row in result.topic_results]
        assert codes == [INVALID_TOPIC, NOT_ATTEMPTED]
        one.producer_epoch = epoch + 1
        (result,) = (await ask(main, new, 4)).results_by_transaction
        codes = [row.results_by_partition[0].partition_error_code for row in result.topic_results]
        assert codes == [PRODUCER_FENCED] * 2
        # A batch that would bring its partition into the transaction does not do that here.
        records = batch(producer_id=who, transactional=True)
        assert await produce(main, ("there", 0), version=12, records=records, transactional_id="t") == [NOT_LEADER]
        asked = transaction_admin.DescribeTransactionsRequest(transactional_ids=["t"])
        (listed,) = (await ask(main, asked, 0)).transaction_states
        assert (listed.transaction_state, listed.topics) == ("Ongoing", [])  # So that it can be aborted.

        marker = transactions.WriteTxnMarkersRequestMarker(
            producer_id=who, producer_epoch=epoch, transaction_result=True, coordinator_epoch=1
        )
        marker.topics = [transactions.WriteTxnMarkersRequestTopic(name="there", partition_indexes=[0])]
        (row,) = (await ask(main, transactions.WriteTxnMarkersRequest(markers=[marker]), 1)).markers
        assert row.topics[0].partitions[0].error_code == NOT_LEADER
        assert_untouched(main.hall, "there")

        part = transactions.TxnOffsetCommitRequestPartition(partition_index=1, committed_offset=40)
        part.committed_metadata = ""
        held = transactions.TxnOffsetCommitRequest(
            transactional_id="t", group_id="g", producer_id=who, producer_epoch=epoch
        )
        held.topics = [transactions.TxnOffsetCommitRequestTopic(name="there", partitions=[part])]
        assert (await ask(main, held, 5)).topics[0].partitions[0].error_code == 0
        end = transactions.EndTxnRequest(transactional_id="t", producer_id=who, producer_epoch=epoch, committed=True)
        assert (await ask(main, end, 3)).error_code == 0
        assert_untouched(main.hall, "there")
        wanted = commits.OffsetFetchRequest(group_id="g", require_stable=True)
        wanted.topics = [commits.OffsetFetchRequestTopic(name="there", partition_indexes=[0, 1])]
        (topic,) = (await ask(main, wanted, 7)).topics
        assert [row.committed_offset for row in topic.partitions] == [-1, 40]


async def test_groups_keep_their_offsets_of_placed_topics_in_the_hall(tmp_path: Path) -> None:
    async with hall_and_wings(tmp_path) as halls:
        there = await create_topic(halls.main.hall, "there", 2, PLACED)
        assert there is not None
        part = commits.OffsetCommitRequestPartition(partition_index=1, committed_offset=3, committed_metadata="m")
        topic = commits.OffsetCommitRequestTopic(name="there", topic_id=there.topic_id, partitions=[part])
        request = commits.OffsetCommitRequest(group_id="g", topics=[topic])
        for version in (6, 10):
            (answer,) = (await ask(halls.main, request, version)).topics
            assert answer.partitions[0].error_code == 0

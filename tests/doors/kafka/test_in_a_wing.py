"""The door of another replication group: it serves its own records, and the main hall answers everything else."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from longhall.broker.topic_administration import create_topic
from longhall.doors.kafka import not_leader
from longhall.doors.kafka.operations import OPERATIONS
from longhall.doors.kafka.wire.apis import API
from longhall.doors.kafka.wire.messages import (
    cluster,
    configs,
    group_admin,
    groups,
    offsets,
    share_records,
    topics,
    transaction_admin,
    transactions,
    versions,
)
from longhall.errors import Code
from tests.doors.hall_and_wings import FIRST, SECOND, broker_of, hall_and_wings
from tests.doors.kafka.asking import ask, batch, fetch, produce
from tests.doors.two_nodes import FOLLOWER, Told

NOT_LEADER, COORDINATOR_NOT_AVAILABLE, OUT_OF_ORDER = 6, 15, 45
PLACED = {"longhall.placement": "any-host"}
BROKER = 4


async def test_a_wing_serves_its_own_lane_and_no_other(tmp_path: Path) -> None:
    async with hall_and_wings(tmp_path) as halls:
        there = await create_topic(halls.main.hall, "there", 3, PLACED)
        assert there is not None
        assert await produce(halls.first, ("there", 0), ("there", 1), ("there", 2)) == [0, NOT_LEADER, 0]
        assert await produce(halls.second, ("there", 0), ("there", 1), ("there", 2)) == [NOT_LEADER, 0, NOT_LEADER]
        assert await produce(halls.second, (there.topic_id, 1), (there.topic_id, 2), version=13) == [0, NOT_LEADER]
        found = await fetch(halls.first, ("there", 0), ("there", 1), wait_ms=20_000)
        assert [code for code, _, _ in found] == [0, NOT_LEADER]
        assert found[0][1] == 1
        found = await fetch(halls.second, (there.topic_id, 0), (there.topic_id, 1), version=16)
        assert [(code, end) for code, end, _ in found] == [(NOT_LEADER, -1), (0, 2)]
        ends = [partition.log.next_offset for partition in halls.first.hall.routes["there"]]
        assert ends == [1, 0, 1]


async def test_partitions_that_a_group_does_not_know_are_refused_with_not_leader(tmp_path: Path) -> None:
    async with hall_and_wings(tmp_path) as halls:
        wing = halls.first
        assert await produce(wing, ("unknown", 0)) == [NOT_LEADER]
        assert await produce(wing, (b"u" * 16, 0), version=13) == [NOT_LEADER]
        assert await fetch(wing, ("unknown", 0)) == [(NOT_LEADER, -1, 0)]
        assert await fetch(wing, (b"u" * 16, 0), version=16) == [(NOT_LEADER, -1, 0)]
        codes = await _codes(halls.first, "unknown")
        assert codes == [NOT_LEADER] * 4
        assert wing.hall.routes == {}
        assert halls.way.asked == 0


async def _codes(wing: Any, name: str) -> list[int]:
    """What ListOffsets, OffsetForLeaderEpoch, DeleteRecords and DescribeProducers say of the first partition."""
    listed = offsets.ListOffsetsRequest(
        topics=[
            offsets.ListOffsetsRequestTopic(name=name, partitions=[offsets.ListOffsetsRequestPartition(timestamp=-1)])
        ]
    )
    ends = offsets.OffsetForLeaderEpochRequest(
        topics=[
            offsets.OffsetForLeaderEpochRequestTopic(
                topic=name, partitions=[offsets.OffsetForLeaderEpochRequestPartition(leader_epoch=1)]
            )
        ]
    )
    trimmed = offsets.DeleteRecordsRequest(
        topics=[
            offsets.DeleteRecordsRequestTopic(
                name=name, partitions=[offsets.DeleteRecordsRequestPartition(partition_index=0, offset=0)]
            )
        ]
    )
    described = transaction_admin.DescribeProducersRequest(
        topics=[transaction_admin.DescribeProducersRequestTopic(name=name, partition_indexes=[0])]
    )
    asked = ((listed, 5), (ends, 3), (trimmed, 1), (described, 0))
    return [(await ask(wing, message, version)).topics[0].partitions[0].error_code for message, version in asked]


async def test_a_wing_that_does_not_lead_refuses_as_followers_do(tmp_path: Path) -> None:
    async with hall_and_wings(tmp_path) as halls:
        await create_topic(halls.main.hall, "there", 2, PLACED)
        assert await _codes(halls.first, "there") == [0] * 4
        halls.first.hall.leadership = Told(FOLLOWER, {})
        assert await produce(halls.first, ("there", 0)) == [NOT_LEADER]
        assert await fetch(halls.first, ("there", 0)) == [(NOT_LEADER, -1, 0)]
        assert await _codes(halls.first, "there") == [NOT_LEADER] * 4
        assert halls.way.asked == 0
        answer = await ask(halls.first, cluster.MetadataRequest(topics=None), 9)
        assert [topic.name for topic in answer.topics] == ["there"]
        assert halls.way.asked == 1
        halls.first.hall.leadership = None


async def test_everything_else_is_answered_by_the_main_hall(tmp_path: Path) -> None:
    async with hall_and_wings(tmp_path) as halls:
        main, wing = halls.main, halls.first
        wanted = topics.CreateTopicsRequestTopic(name="there", num_partitions=2, replication_factor=-1)
        wanted.configs = [topics.CreateTopicsRequestConfig(name="longhall.placement", value="any-host")]
        made = await ask(wing, topics.CreateTopicsRequest(topics=[wanted], timeout_ms=1000), 5)
        assert made.topics[0].error_code == 0
        for version in (1, 9, 12):
            answer = await ask(wing, cluster.MetadataRequest(topics=None), version)
            assert {broker.node_id for broker in answer.brokers} == {1, broker_of(FIRST), broker_of(SECOND)}
            assert [part.leader_id for part in answer.topics[0].partitions] == [broker_of(FIRST), broker_of(SECOND)]
        automatic = await ask(wing, cluster.MetadataRequest(topics=[cluster.MetadataRequestTopic(name="new")]), 9)
        assert automatic.topics[0].error_code == 0
        assert "new" in main.hall.routes
        assert list(wing.hall.routes) == ["there"]
        found = await ask(wing, cluster.FindCoordinatorRequest(coordinator_keys=["g"]), 4)
        assert [(row.node_id, row.port) for row in found.coordinators] == [(1, main.kafka.port)]
        shown = await ask(wing, cluster.DescribeClusterRequest(), 0)
        assert (shown.controller_id, shown.cluster_id) == (1, main.hall.hall_id)
        producer = await ask(wing, transactions.InitProducerIdRequest(transactional_id=None), 1)
        assert (producer.error_code, producer.producer_id >= 0) == (0, True)
        assert main.hall.catalogue.producer_ids_below > 0
        assert wing.hall.catalogue.producer_ids_below == 0
        about = configs.DescribeConfigsRequestResource(resource_type=2, resource_name="new", configuration_keys=None)
        (row,) = (await ask(wing, configs.DescribeConfigsRequest(resources=[about]), 2)).results
        assert row.error_code == 0
        joined = await ask(wing, groups.JoinGroupRequest(group_id="g", session_timeout_ms=6000), 4)
        assert joined.error_code == 23  # INCONSISTENT_GROUP_PROTOCOL: it named none, says who looks after groups.


async def test_what_is_asked_of_one_broker_is_about_that_broker(tmp_path: Path) -> None:
    async with hall_and_wings(tmp_path) as halls:
        wing = halls.first
        offered = await ask(
            wing, versions.ApiVersionsRequest(client_software_name="test", client_software_version="1"), 3
        )
        assert {row.api_key for row in offered.api_keys} == set(OPERATIONS)
        about = configs.DescribeConfigsRequestResource(resource_type=BROKER, configuration_keys=None)
        about.resource_name = str(broker_of(FIRST))
        (row,) = (await ask(wing, configs.DescribeConfigsRequest(resources=[about]), 2)).results
        assert (row.error_code, bool(row.configs)) == (0, True)
        # Clients ask every broker for these lists: the main hall has all rows.
        assert (await ask(wing, group_admin.ListGroupsRequest(), 3)).groups == []
        assert (await ask(wing, transaction_admin.ListTransactionsRequest(), 0)).transaction_states == []
        assert halls.way.asked == 0


async def test_without_a_way_to_the_main_hall(tmp_path: Path) -> None:
    """Connections are closed, and clients ask another broker; records are served nevertheless."""
    async with hall_and_wings(tmp_path) as halls:
        await create_topic(halls.main.hall, "there", 2, PLACED)
        halls.way.refusal = Code.NOT_READY
        before = [shard.sequence for shard in halls.first.hall.shards]
        for key, operation in OPERATIONS.items():
            if operation.is_for_group(API[key].request()):
                continue
            with pytest.raises(ConnectionError):
                await ask(halls.first, API[key].request(), operation.version_max)
        assert [shard.sequence for shard in halls.first.hall.shards] == before
        assert await produce(halls.first, ("there", 0)) == [0]


async def _take_ids(process: Any, count: int) -> list[int]:
    request = transactions.InitProducerIdRequest(transactional_id=None)
    answers = await asyncio.gather(*(ask(process, request, 4) for _ in range(count)))
    assert [answer.error_code for answer in answers] == [0] * count
    return [answer.producer_id for answer in answers]


async def test_a_wing_gives_out_producer_ids_of_its_own_block_while_the_hall_is_away(tmp_path: Path) -> None:
    async with hall_and_wings(tmp_path) as halls:
        given = await _take_ids(halls.first, 3)
        assert halls.way.asked == 1
        halls.way.refusal = Code.NOT_READY
        given += await _take_ids(halls.first, 20)
        request = transactions.InitProducerIdRequest(transactional_id=None)
        assert (await ask(halls.second, request, 4)).error_code == COORDINATOR_NOT_AVAILABLE
        halls.way.refusal = None
        for process in (halls.second, halls.main, halls.second, halls.first):
            given += await _take_ids(process, 5)
        assert len(set(given)) == len(given)


async def test_below_its_feature_level_a_wing_asks_the_main_hall_for_each_producer_id(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(not_leader, "may_reserve_producer_ids", lambda hall: False)
    async with hall_and_wings(tmp_path) as halls:
        assert len(set(await _take_ids(halls.first, 3))) == 3
        assert halls.way.asked == 3


async def test_producers_are_numbered_by_the_main_hall_and_counted_here(tmp_path: Path) -> None:
    async with hall_and_wings(tmp_path) as halls:
        await create_topic(halls.main.hall, "there", 4, PLACED)
        who = (await ask(halls.main, transactions.InitProducerIdRequest(transactional_id=None), 1)).producer_id
        first = halls.first

        async def send(partition: int, sequence: int) -> int:
            records = batch(b"%d" % sequence, producer_id=who, sequence=sequence)
            (code,) = await produce(first, ("there", partition), records=records)
            return code

        assert [await send(0, sequence) for sequence in (0, 1, 1, 0, 2)] == [0] * 5  # Repeats are known as such.
        assert await send(0, 9) == OUT_OF_ORDER
        assert [await send(2, sequence) for sequence in (0, 1)] == [0, 0]
        assert await send(2, 3) == OUT_OF_ORDER
        assert [partition.log.next_offset for partition in first.hall.routes["there"]] == [3, 0, 2, 0]


@pytest.mark.clients
async def test_clients_that_know_one_broker_find_their_way(tmp_path: Path) -> None:
    async with hall_and_wings(tmp_path) as halls:
        await asyncio.to_thread(_produce_and_consume, str(halls.second.kafka), str(halls.main.kafka))
        ends = [
            [partition.log.next_offset for partition in node.hall.routes["t"]]
            for node in (halls.main, halls.first, halls.second)
        ]
        assert ends == [[0, 0, 0], [10, 0, 10], [0, 10, 0]]
        await asyncio.to_thread(_transact, str(halls.first.kafka))


def _produce_and_consume(bootstrap: str, other: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    topic = NewTopic("t", num_partitions=3, replication_factor=1, config={"longhall.placement": "parts"})
    admin.create_topics([topic])["t"].result(20)
    failures: list[KafkaError] = []
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    for number in range(30):
        producer.produce(
            "t",
            str(number),
            partition=number % 3,
            on_delivery=lambda error, _: failures.append(error) if error else None,
        )
    assert producer.flush(20) == 0
    assert failures == []
    settings = {"bootstrap.servers": other, "group.id": "g", "auto.offset.reset": "earliest"}
    consumer = Consumer({**settings, "session.timeout.ms": 6000})
    consumer.subscribe(["t"])
    found: set[str] = set()
    for _ in range(200):
        message = consumer.poll(0.2)
        if message is not None and message.error() is None:
            found.add((message.value() or b"").decode())
        if len(found) == 30:
            break
    consumer.commit(asynchronous=False)
    consumer.close()
    assert len(found) == 30


def _transact(bootstrap: str) -> None:
    """Transactions over both wings and the hall, with offsets: committed ones are read, aborted ones are not."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "tx"})
    producer.init_transactions(20)
    settings = {"bootstrap.servers": bootstrap, "group.id": "tx-readers", "auto.offset.reset": "earliest"}
    consumer = Consumer({**settings, "isolation.level": "read_committed", "enable.auto.commit": False})
    for word, commits in (("first", True), ("second", False), ("third", True)):
        producer.begin_transaction()
        for partition in range(3):
            producer.produce("t", f"{word}-{partition}", partition=partition)
        producer.produce("other", f"{word}-other")
        producer.send_offsets_to_transaction(
            [TopicPartition("t", 0, len(word))], consumer.consumer_group_metadata(), 20
        )
        if commits:
            producer.commit_transaction(20)
        else:
            producer.flush(20)
            producer.abort_transaction(20)
    (committed,) = consumer.committed([TopicPartition("t", 0)], 20)
    assert committed.offset == len("third")
    consumer.assign([TopicPartition("t", number, 10) for number in range(3)] + [TopicPartition("other", 0, 0)])
    found: set[str] = set()
    for _ in range(200):
        message = consumer.poll(0.1)
        if message is not None and message.error() is None:
            found.add((message.value() or b"").decode())
        if len(found) == 8:
            break
    consumer.close()
    assert found == {f"{word}-{place}" for word in ("first", "third") for place in (0, 1, 2, "other")}


async def test_a_share_group_has_its_cursor_in_the_wing_and_its_settings_from_the_main_hall(tmp_path: Path) -> None:
    async with hall_and_wings(tmp_path) as halls:
        there = await create_topic(halls.main.hall, "there", 2, PLACED)
        assert there is not None
        assert await produce(halls.first, ("there", 0)) == [0]
        change = configs.IncrementalAlterConfigsRequestConfig(name="share.auto.offset.reset", value="earliest")
        resource = configs.IncrementalAlterConfigsRequestResource(resource_type=32, resource_name="g", configs=[change])
        answer = await ask(halls.first, configs.IncrementalAlterConfigsRequest(resources=[resource]), 1)
        assert answer.responses[0].error_code == 0
        part = share_records.ShareFetchRequestPartition(partition_index=0)
        request = share_records.ShareFetchRequest(
            group_id="g",
            member_id="m",
            max_records=10,
            max_bytes=1000,
            topics=[share_records.ShareFetchRequestTopic(topic_id=there.topic_id, partitions=[part])],
        )
        answer = await ask(halls.first, request, 2)
        (acquired,) = answer.responses[0].partitions[0].acquired_records
        assert (acquired.first_offset, acquired.last_offset, acquired.delivery_count) == (0, 0, 1)
        answer = await ask(halls.main, request, 2)
        found = answer.responses[0].partitions[0]
        assert (found.error_code, found.current_leader.leader_id) == (NOT_LEADER, broker_of(FIRST))

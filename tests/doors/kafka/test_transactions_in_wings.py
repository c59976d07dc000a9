"""Transactions over partitions of other replication groups, as clients see them at the doors of hall and wings."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from longhall.broker import transaction_coordinator
from longhall.broker.topic_administration import create_topic, delete_topic
from longhall.broker.transaction_markers import write_markers
from longhall.doors.kafka.handlers import add_partitions_to_txn
from longhall.doors.kafka.wire.messages import transaction_admin, transactions
from longhall.errors import Code
from longhall.node.assembly import Node
from tests.doors.hall_and_wings import SECOND, HallAndWings, hall_and_wings
from tests.doors.kafka.asking import ask, batch, produce

INVALID_TOPIC, NOT_ENOUGH_REPLICAS = 17, 19
INVALID_EPOCH, INVALID_TXN_STATE, CONCURRENT, NOT_ATTEMPTED = 47, 48, 51, 55
PLACED = {"longhall.placement": "any-host"}
PLACES = {"there": [0, 1], "here": [0]}


class Transactional:
    """A producer with a transactional id, which sends each request once."""

    def __init__(self, halls: HallAndWings) -> None:
        self.halls = halls
        self.producer_id, self.epoch = -1, -1
        self._sequences: dict[tuple[str, int], int] = {}

    async def begin(self) -> int:
        request = transactions.InitProducerIdRequest(transactional_id="t", transaction_timeout_ms=600_000)
        answer = await ask(self.halls.main, request, 2)
        if answer.error_code == 0:
            self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
            self._sequences.clear()
        return int(answer.error_code)

    async def add(self, places: dict[str, list[int]]) -> list[int]:
        request = transactions.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id="t",
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[
                transactions.AddPartitionsToTxnRequestTopic(name=name, partitions=numbers)
                for name, numbers in places.items()
            ],
        )
        answer = await ask(self.halls.main, request, 3)
        rows = [part for topic in answer.results_by_topic_v3_and_below for part in topic.results_by_partition]
        return [part.partition_error_code for part in rows]

    async def send(self, node: Node, topic: str, number: int, version: int = 9) -> int:
        sequence = self._sequences.get((topic, number), 0)
        records = batch(
            producer_id=self.producer_id, sequence=sequence, transactional=True, epoch=self.epoch, value=b"%d" % number
        )
        (code,) = await produce(node, (topic, number), version=version, records=records, transactional_id="t")
        if code == 0:
            self._sequences[topic, number] = sequence + 1
        return code

    async def send_everywhere(self) -> None:
        halls = self.halls
        assert await self.send(halls.first, "there", 0) == 0
        assert await self.send(halls.second, "there", 1) == 0
        assert await self.send(halls.main, "here", 0) == 0

    async def end(self, commit: bool) -> int:
        request = transactions.EndTxnRequest(
            transactional_id="t", producer_id=self.producer_id, producer_epoch=self.epoch, committed=commit
        )
        return int((await ask(self.halls.main, request, 3)).error_code)


async def _opened(halls: HallAndWings) -> Transactional:
    """A producer whose transaction has a batch in both wings and in the hall."""
    await create_topic(halls.main.hall, "there", 2, PLACED)
    await create_topic(halls.main.hall, "here", 1, {})
    producer = Transactional(halls)
    assert await producer.begin() == 0
    assert await producer.add(PLACES) == [0, 0, 0]
    await producer.send_everywhere()
    return producer


def _stable(halls: HallAndWings) -> list[int]:
    """The last stable offsets of the three partitions."""
    places = ((halls.first, "there", 0), (halls.second, "there", 1), (halls.main, "here", 0))
    return [node.hall.routes[topic][number].last_stable_offset for node, topic, number in places]


def _state(halls: HallAndWings) -> str:
    found = halls.main.kafka_door.transactor.describe_transaction("t")
    return "" if found is None else found.state


async def _until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("commit", [True, False])
async def test_the_outcome_reaches_every_group(tmp_path: Path, commit: bool) -> None:
    async with hall_and_wings(tmp_path) as halls:
        producer = await _opened(halls)
        assert _stable(halls) == [0, 0, 0]
        found = halls.main.kafka_door.transactor.describe_transaction("t")
        assert found is not None
        assert sorted(found.partitions) == [("here", 0), ("there", 0), ("there", 1)]
        assert await producer.end(commit) == 0
        assert _stable(halls) == [2, 2, 2]
        for node, topic, number in ((halls.first, "there", 0), (halls.second, "there", 1), (halls.main, "here", 0)):
            aborted = node.hall.routes[topic][number].table().aborted_ranges()
            assert aborted == ([] if commit else [(producer.producer_id, 0, 1)])
        assert _state(halls) == ("CompleteCommit" if commit else "CompleteAbort")
        assert await producer.add(PLACES) == [0, 0, 0]
        await producer.send_everywhere()
        assert await producer.end(commit) == 0
        assert _stable(halls) == [4, 4, 4]


async def test_a_batch_outside_its_transaction_is_refused(tmp_path: Path) -> None:
    async with hall_and_wings(tmp_path) as halls:
        producer = await _opened(halls)
        assert await producer.end(True) == 0
        assert await producer.send(halls.first, "there", 0) == INVALID_TXN_STATE  # The transaction has ended.
        assert await producer.add({"there": [1]}) == [0]
        assert await producer.send(halls.first, "there", 0) == INVALID_TXN_STATE  # Another one has begun, without it.
        zombie = copy.deepcopy(producer, {id(halls): halls})
        assert await producer.begin() == 0
        assert await zombie.send(halls.first, "there", 0) == INVALID_EPOCH  # By the coordinator's word,
        assert await zombie.send(halls.second, "there", 1) == INVALID_EPOCH  # and by that of the marker.
        assert halls.first.hall.routes["there"][0].log.next_offset == 2


async def test_a_newer_client_adds_the_partition_with_its_first_batch(tmp_path: Path) -> None:
    async with hall_and_wings(tmp_path) as halls:
        await create_topic(halls.main.hall, "there", 2, PLACED)
        producer = Transactional(halls)
        await producer.begin()
        assert await producer.send(halls.first, "there", 0, version=12) == 0
        assert await producer.send(halls.first, "there", 0, version=12) == 0
        assert halls.way.asked == 1  # For the first batch alone.
        found = halls.main.kafka_door.transactor.describe_transaction("t")
        assert found is not None
        assert (found.state, found.partitions) == ("Ongoing", (("there", 0),))
        assert await producer.end(False) == 0
        assert halls.first.hall.routes["there"][0].last_stable_offset == 3


async def test_an_unreachable_group_delays_the_end_and_not_the_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transaction_coordinator, "OUTCOME_S_MAX", 0.05)
    async with hall_and_wings(tmp_path) as halls:
        producer = await _opened(halls)
        halls.told.leaderless.add(SECOND)
        assert await producer.end(True) == 0  # It is decided.
        await _until(lambda: _stable(halls) == [2, 0, 2])
        assert _state(halls) == "PrepareCommit"
        assert await producer.add(PLACES) == [CONCURRENT] * 3
        assert await producer.end(False) == INVALID_TXN_STATE  # The outcome does not change.
        halls.told.leaderless.clear()
        await _until(lambda: _state(halls) == "CompleteCommit")
        assert _stable(halls) == [2, 2, 2]
        assert halls.second.hall.routes["there"][1].table().aborted_ranges() == []


async def test_a_deleted_topic_needs_no_marker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transaction_coordinator, "OUTCOME_S_MAX", 0.05)
    async with hall_and_wings(tmp_path) as halls:
        producer = await _opened(halls)
        halls.told.leaderless.add(SECOND)
        assert await producer.end(True) == 0
        await delete_topic(halls.main.hall, "there")
        await _until(lambda: _state(halls) == "CompleteCommit")
        assert await producer.begin() == 0


async def test_a_marker_that_overtakes_the_confirmation_voids_it(tmp_path: Path) -> None:
    """The coordinator confirms a partition, the transaction ends, and only then the confirmation arrives."""
    async with hall_and_wings(tmp_path) as halls:
        await create_topic(halls.main.hall, "there", 2, PLACED)
        producer = Transactional(halls)
        await producer.begin()
        assert await producer.add({"there": [0]}) == [0]
        halls.way.delivers.clear()
        sending = asyncio.create_task(producer.send(halls.first, "there", 0))
        await _until(lambda: halls.way.asked == 1)
        assert await producer.end(False) == 0
        halls.way.delivers.set()
        assert await sending == INVALID_TXN_STATE
        assert halls.way.asked == 2
        partition = halls.first.hall.routes["there"][0]
        assert (partition.log.next_offset, partition.last_stable_offset) == (1, 1)  # The marker alone.


async def test_a_delayed_request_for_a_marker_ends_no_later_transaction(tmp_path: Path) -> None:
    async with hall_and_wings(tmp_path) as halls:
        producer = await _opened(halls)
        assert await producer.end(False) == 0
        delayed = next(request for request in halls.told.markers if ("there" in request.partitions[0]))
        hall = {0: halls.first.hall, 1: halls.second.hall}[delayed.partitions[0][2]]
        assert await producer.add(PLACES) == [0, 0, 0]
        await producer.send_everywhere()
        before = _stable(halls)
        assert await write_markers(hall, delayed) == [Code.NOT_LEADER]
        assert _stable(halls) == before == [2, 2, 2]
        assert await producer.end(True) == 0
        assert _stable(halls) == [4, 4, 4]


async def test_without_the_coordinator_a_batch_is_refused_as_kafka_refuses_it(tmp_path: Path) -> None:
    async with hall_and_wings(tmp_path) as halls:
        producer = await _opened(halls)
        assert await producer.end(True) == 0
        assert await producer.add(PLACES) == [0, 0, 0]
        halls.way.refusal = Code.NOT_READY
        assert await producer.send(halls.first, "there", 0) == NOT_ENOUGH_REPLICAS
        halls.way.refusal = None
        assert await producer.send(halls.first, "there", 0) == 0


async def test_an_administrator_finds_and_ends_a_transaction_in_a_wing(tmp_path: Path) -> None:
    async with hall_and_wings(tmp_path) as halls:
        producer = await _opened(halls)
        described = transaction_admin.DescribeProducersRequest(
            topics=[transaction_admin.DescribeProducersRequestTopic(name="there", partition_indexes=[0])]
        )

        async def open_since() -> list[int]:
            (row,) = (await ask(halls.first, described, 0)).topics[0].partitions
            return [one.current_txn_start_offset for one in row.active_producers]

        assert await open_since() == [0]
        marker = transactions.WriteTxnMarkersRequestMarker(
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            transaction_result=False,
            coordinator_epoch=0,
            topics=[transactions.WriteTxnMarkersRequestTopic(name="there", partition_indexes=[0])],
        )
        answer: Any = await ask(halls.first, transactions.WriteTxnMarkersRequest(markers=[marker]), 1)
        assert answer.markers[0].topics[0].partitions[0].error_code == 0
        assert await open_since() == [-1]
        assert _stable(halls) == [2, 0, 0]


async def test_below_their_feature_level_partitions_of_wings_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(add_partitions_to_txn, "may_transact_in_groups", lambda hall: False)
    async with hall_and_wings(tmp_path) as halls:
        await create_topic(halls.main.hall, "there", 2, PLACED)
        await create_topic(halls.main.hall, "here", 1, {})
        producer = Transactional(halls)
        await producer.begin()
        assert await producer.add(PLACES) == [INVALID_TOPIC, INVALID_TOPIC, NOT_ATTEMPTED]
        assert await producer.end(False) == 0

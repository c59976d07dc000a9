"""Markers of a transaction in other replication groups: all of them, through failures, crashes and deletions."""

from __future__ import annotations

import asyncio

import pytest

from longhall.broker.topic_administration import create_topic, delete_topic
from longhall.errors import Code
from tests.broker.desk import Desk, Life
from tests.broker.test_topic_placement import PLACED, wings_of

PLACES = [("there", 0), ("there", 1), ("there", 2), ("there", 3), ("here", 0)]  # In the wings 1, 3, 2, 1 and the hall.


async def _opened(life: Life) -> tuple[int, int]:
    """A transaction with partitions of three wings and of the hall: the producer's id and epoch."""
    await create_topic(life.hall, "there", 4, PLACED)
    await create_topic(life.hall, "here", 1, {})
    given = await life.transactor.init("t", 60_000, -1, -1)
    added = await life.transactor.add("t", given.producer_id, given.producer_epoch, PLACES)
    assert added.code is None
    return given.producer_id, given.producer_epoch


def _state(life: Life) -> str:
    found = life.transactor.describe_transaction("t")
    assert found is not None
    return found.state


def test_each_group_is_asked_once_for_all_its_partitions() -> None:
    async def play(life: Life) -> None:
        wings = wings_of(life)
        who = await _opened(life)
        assert (await life.transactor.end("t", *who, True, False)).code is None
        topic = life.hall.topic("there")
        assert topic is not None
        asked = {group: [number for _, _, number in request.partitions] for group, request in wings.markers}
        assert asked == {1: [0, 3], 3: [1], 2: [2]}
        assert len({request.number for _, request in wings.markers}) == 3
        assert {topic_id for _, request in wings.markers for _, topic_id, _ in request.partitions} == {topic.topic_id}
        assert all(request.committed for _, request in wings.markers)
        assert _state(life) == "CompleteCommit"
        assert life.partition("here").log.next_offset == 1

    Desk().live(play)


def test_a_group_that_does_not_answer_is_asked_again_with_a_higher_number() -> None:
    async def play(life: Life) -> None:
        wings = wings_of(life)
        who = await _opened(life)
        wings.meanwhile = Code.NOT_READY
        assert (await life.transactor.end("t", *who, False, False)).code is None  # It is decided.
        assert _state(life) == "PrepareAbort"
        refused = await life.transactor.add("t", *who, PLACES)
        assert refused.code is Code.CONCURRENT_TRANSACTIONS
        asked = len(wings.asked)
        assert asked > 6
        wings.meanwhile = None
        await asyncio.sleep(5)
        assert _state(life) == "CompleteAbort"
        assert min(request.number for _, request in wings.markers) > 3

    Desk().live(play)


@pytest.mark.parametrize("end", ["kill", "cut"])
def test_the_next_coordinator_writes_the_markers_of_what_was_decided(end: str) -> None:
    desk = Desk()

    async def decide(life: Life) -> None:
        wings = wings_of(life)
        who = await _opened(life)
        wings.meanwhile = Code.NOT_READY
        assert (await life.transactor.end("t", *who, True, False)).code is None

    async def finish(life: Life) -> None:
        wings = wings_of(life)
        assert _state(life) == "PrepareCommit"
        life.transactor.start()
        await asyncio.sleep(1)
        assert _state(life) == "CompleteCommit"
        assert sorted(group for group, _ in wings.markers) == [1, 2, 3]
        assert all(request.committed for _, request in wings.markers)

    desk.live(decide, end=end)
    desk.live(finish)


def test_a_transaction_that_times_out_is_aborted_in_every_group_under_a_raised_epoch() -> None:
    async def play(life: Life) -> None:
        wings = wings_of(life)
        who = await _opened(life)
        await asyncio.sleep(61)
        assert _state(life) == "CompleteAbort"
        assert sorted(group for group, _ in wings.markers) == [1, 2, 3]
        assert {(request.committed, request.producer_epoch) for _, request in wings.markers} == {(False, who[1] + 1)}

    Desk().live(play)


def test_a_deleted_topic_needs_no_markers() -> None:
    async def play(life: Life) -> None:
        wings = wings_of(life)
        who = await _opened(life)
        wings.meanwhile = Code.NOT_READY
        await life.transactor.end("t", *who, True, False)
        wings.meanwhile = None
        await delete_topic(life.hall, "there")
        await asyncio.sleep(5)
        assert _state(life) == "CompleteCommit"

    Desk().live(play)


def test_a_node_that_stops_does_not_wait_for_a_group_for_ever() -> None:
    async def play(life: Life) -> None:
        wings = wings_of(life)
        who = await _opened(life)
        wings.meanwhile = Code.NOT_READY
        await life.transactor.end("t", *who, True, False)
        life.hall.background.close()
        await life.transactor.stop()
        asked = len(wings.asked)
        await asyncio.sleep(10)
        assert len(wings.asked) == asked

    Desk().live(play)

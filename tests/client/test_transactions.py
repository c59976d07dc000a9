"""The requests of a transactional producer, in the order that a coordinator requires."""

from __future__ import annotations

import pytest

from longhall.client.groups import Committed, Membership
from longhall.client.hall import Hall
from longhall.client.producer import RISING_FEATURE, Options, Producer
from longhall.errors import Code, LonghallError
from longhall.records.batch import parse_header
from simulation.world import SimulatedWorld
from tests.client.conftest import Play
from tests.client.coordinator import ADD_PARTITIONS, END_TRANSACTION
from tests.client.scripted import DROP, LOSE, PRODUCE, ScriptedBroker


def epochs(broker: ScriptedBroker, partition: int = 0) -> list[tuple[int, int, int]]:
    """Producer, epoch and sequence of every batch that was stored."""
    headers = [parse_header(batch, 0) for batch in broker.logs[partition]]
    assert all(header.is_transactional for header in headers)
    return [(header.producer_id, header.producer_epoch, header.base_sequence) for header in headers]


def test_partitions_are_added_before_they_are_written(play: Play) -> None:
    async def scene(broker: ScriptedBroker, hall: Hall, world: SimulatedWorld) -> None:
        broker.mishaps = {ADD_PARTITIONS: [51, 51], END_TRANSACTION: [51, DROP]}
        producer = Producer(hall, world.clock, Options(transactional_id="mine"))
        await producer.begin()
        await producer.send("t", b"a", partition=0)
        await producer.send_offsets("g", {("t", 0): Committed(7)}, Membership(3, "m"))
        await producer.commit()
        await producer.begin()
        await producer.send("t", b"b", partition=0)
        await producer.flush()
        await producer.abort()
        assert sorted(map(str, broker.coordinator.steps[:3])) == sorted(
            map(str, [("add", "t", 0), ("add offsets", "g"), ("offsets", "g", 3)])
        )
        assert broker.coordinator.steps[3:] == ["commit", ("add", "t", 0), "abort"]
        assert epochs(broker) == [(1001, 0, 0), (1001, 0, 1)]
        assert (PRODUCE, 11) in broker.asked

    play(scene)


def test_with_rising_epochs_a_write_adds_the_partition(play: Play, broker: ScriptedBroker) -> None:
    broker.features = {RISING_FEATURE: 2}

    async def scene(broker: ScriptedBroker, hall: Hall, world: SimulatedWorld) -> None:
        producer = Producer(hall, world.clock, Options(transactional_id="mine"))
        for _ in range(2):
            await producer.begin()
            await producer.send("t", b"a", partition=0)
            await producer.send_offsets("g", {("t", 0): Committed(7)})
            await producer.commit()
        assert broker.coordinator.steps == [("offsets", "g", -1), "commit"] * 2
        assert epochs(broker) == [(1001, 0, 0), (1001, 1, 0)]
        assert (PRODUCE, 13) in broker.asked

    play(scene)


def test_an_empty_transaction_sends_no_request(play: Play) -> None:
    async def scene(broker: ScriptedBroker, hall: Hall, world: SimulatedWorld) -> None:
        producer = Producer(hall, world.clock, Options(transactional_id="mine"))
        await producer.begin()
        await producer.commit()
        await producer.begin()
        await producer.close()
        assert broker.coordinator.steps == []

    play(scene)


def test_after_a_failure_only_abort_is_possible(play: Play) -> None:
    async def scene(broker: ScriptedBroker, hall: Hall, world: SimulatedWorld) -> None:
        producer = Producer(hall, world.clock, Options(transactional_id="mine", delivery_timeout_ms=1_000))
        await producer.begin()
        broker.mishaps = {PRODUCE: [LOSE, *[DROP] * 100]}
        await producer.send("t", b"lost", partition=0)
        await producer.flush()
        broker.mishaps = {}
        for attempt in (producer.send("t", b"more"), producer.commit()):
            with pytest.raises(LonghallError) as refusal:
                await attempt
            assert refusal.value.code is Code.TRANSACTION_ABORTABLE
        await producer.abort()
        await producer.begin()
        await producer.send("t", b"again", partition=0)
        await producer.commit()
        assert epochs(broker) == [(1001, 0, 0), (1001, 1, 0)]
        assert broker.coordinator.steps[-1] == "commit"

    play(scene)


def test_a_fenced_producer_gets_an_error(play: Play) -> None:
    async def scene(broker: ScriptedBroker, hall: Hall, world: SimulatedWorld) -> None:
        producer = Producer(hall, world.clock, Options(transactional_id="mine"))
        await producer.begin()
        await producer.send("t", b"a", partition=0)
        await producer.flush()
        broker.mishaps = {END_TRANSACTION: [90]}
        for attempt in (producer.commit, producer.abort, producer.begin):
            with pytest.raises(LonghallError) as refusal:
                await attempt()
            assert refusal.value.code is Code.PRODUCER_FENCED
        await producer.close()
        assert broker.coordinator.steps == [("add", "t", 0)]

    play(scene)

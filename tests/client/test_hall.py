"""Connections, versions, and retries."""

from __future__ import annotations

import asyncio

import pytest

from longhall.client.connection import Connection
from longhall.client.hall import Hall, split_address
from longhall.client.records import EARLIEST, LATEST
from longhall.client.refusals import Refused, Unreachable
from longhall.doors.kafka.wire.messages.cluster import MetadataRequest, MetadataResponse
from longhall.errors import Code, LonghallError
from simulation.world import SimulatedWorld
from tests.client.conftest import Play
from tests.client.scripted import (
    API_VERSIONS,
    DROP,
    FETCH,
    HOST,
    LIST_OFFSETS,
    METADATA,
    PORT,
    SILENT,
    ScriptedBroker,
)


def test_addresses() -> None:
    assert split_address("somewhere:1234") == ("somewhere", 1234)
    assert split_address("somewhere") == ("somewhere", 9092)
    assert split_address("[::1]:80") == ("::1", 80)


def test_connect_discovers_the_brokers(play: Play) -> None:
    async def scene(broker: ScriptedBroker, hall: Hall, world: SimulatedWorld) -> None:
        assert hall.brokers == {1: (HOST, PORT)}
        assert len((await hall.topic("t")).partitions) == 2

    play(scene)


def test_an_address_without_a_broker_is_unreachable(play: Play) -> None:
    async def scene(broker: ScriptedBroker, hall: Hall, world: SimulatedWorld) -> None:
        with pytest.raises(Unreachable, match="Cannot connect"):
            await Hall.connect(world.network, "broker:1")

    play(scene)


def test_requests_use_versions_that_an_old_broker_supports(play: Play, broker: ScriptedBroker) -> None:
    broker.ranges |= {API_VERSIONS: (0, 2), METADATA: (0, 1), FETCH: (4, 4)}

    async def scene(broker: ScriptedBroker, hall: Hall, world: SimulatedWorld) -> None:
        assert broker.asked[:3] == [(API_VERSIONS, 3), (API_VERSIONS, 0), (METADATA, 1)]
        await hall.records.fetch("t", 0, 0)
        assert broker.asked[-1] == (FETCH, 4)

    play(scene)


def test_an_unsupported_version_is_refused_by_the_client(play: Play, broker: ScriptedBroker) -> None:
    del broker.ranges[LIST_OFFSETS]

    async def scene(broker: ScriptedBroker, hall: Hall, world: SimulatedWorld) -> None:
        with pytest.raises(LonghallError) as refusal:
            await hall.records.list_offsets("t", {0: EARLIEST})
        assert refusal.value.code is Code.UNSUPPORTED_VERSION

    play(scene)


def test_a_missing_topic_is_refused_without_retry(play: Play, broker: ScriptedBroker) -> None:
    broker.unknown_topic = True

    async def scene(broker: ScriptedBroker, hall: Hall, world: SimulatedWorld) -> None:
        with pytest.raises(Refused) as refusal:
            await hall.topics.describe("nothing")
        assert refusal.value.code is Code.UNKNOWN_TOPIC

    assert play(scene) < 1


def test_persist_retries_retriable_errors(play: Play) -> None:
    async def scene(broker: ScriptedBroker, hall: Hall, world: SimulatedWorld) -> None:
        broker.mishaps = {LIST_OFFSETS: [6, DROP, 5], METADATA: [DROP, 5]}
        found = await hall.persist(lambda: hall.records.list_offsets("t", {0: EARLIEST, 1: LATEST}))
        assert {part: each.offset for part, each in found.items()} == {0: 0, 1: 0}

    play(scene)


def test_persist_ends_at_its_timeout(play: Play) -> None:
    async def scene(broker: ScriptedBroker, hall: Hall, world: SimulatedWorld) -> None:
        broker.mishaps = {LIST_OFFSETS: [6] * 1000}
        with pytest.raises(Refused, match="NOT_LEADER"):
            await hall.persist(lambda: hall.records.list_offsets("t", {0: EARLIEST}), patience_ms=5_000)

    assert 3 < play(scene) < 6


def test_a_timeout_fails_every_open_request(play: Play) -> None:
    async def scene(broker: ScriptedBroker, hall: Hall, world: SimulatedWorld) -> None:
        connection = await Connection.open(world.network, HOST, PORT, "test")
        broker.mishaps = {METADATA: [SILENT, SILENT]}
        calls = [connection.call(MetadataRequest(), MetadataResponse, timeout_ms=ms) for ms in (1_000, 9_000)]
        results = await asyncio.gather(*calls, return_exceptions=True)
        assert [type(result) for result in results] == [Unreachable, Unreachable]
        assert not connection.is_open
        with pytest.raises(Unreachable):
            await connection.call(MetadataRequest(), MetadataResponse)

    assert play(scene) < 2


def test_responses_are_matched_to_requests(play: Play) -> None:
    async def scene(broker: ScriptedBroker, hall: Hall, world: SimulatedWorld) -> None:
        connection = await Connection.open(world.network, HOST, PORT, "test")
        answers = await asyncio.gather(*(connection.call(_for(name), MetadataResponse) for name in "abcdefgh" * 40))
        assert [answer.topics[0].name for answer in answers] == list("abcdefgh" * 40)

    play(scene)


def _for(name: str) -> MetadataRequest:
    from longhall.doors.kafka.wire.messages.cluster import MetadataRequestTopic

    return MetadataRequest(topics=[MetadataRequestTopic(name=name)])


def test_a_cancelled_call_leaves_the_connection_usable(play: Play) -> None:
    async def scene(broker: ScriptedBroker, hall: Hall, world: SimulatedWorld) -> None:
        connection = await Connection.open(world.network, HOST, PORT, "test")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.0001):
                await connection.call(_for("late"), MetadataResponse)
        assert (await connection.call(_for("next"), MetadataResponse)).topics[0].name == "next"

    play(scene)


def test_a_closed_hall_refuses_calls(play: Play) -> None:
    async def scene(broker: ScriptedBroker, hall: Hall, world: SimulatedWorld) -> None:
        hall.close()
        with pytest.raises(Refused, match="closed"):
            await hall.persist(lambda: hall.metadata([]))

    assert play(scene) < 1


class _OversizedResponder(asyncio.Protocol):
    """Answers everything with a frame of an impossible size."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.write(b"\xff\xff\xff\xff")


def test_a_response_of_an_impossible_size_closes_the_connection(play: Play) -> None:
    async def scene(broker: ScriptedBroker, hall: Hall, world: SimulatedWorld) -> None:
        _, port = await world.network.listen(_OversizedResponder, "client", 0)
        with pytest.raises(Unreachable, match="bytes"):
            await Hall.connect(world.network, f"client:{port}")

    play(scene)

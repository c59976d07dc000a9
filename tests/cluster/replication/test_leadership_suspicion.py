"""A leader that is cut off sends clients elsewhere; one that only lacks the coordinator does not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from longhall.broker.topic_administration import create_topic
from longhall.cluster.replication import leadership_suspicion
from longhall.cluster.replication.leadership_suspicion import LeadershipSuspicion
from longhall.cluster.replication.roles import FollowerStatus, ReplicaStatus, Role
from longhall.coordination.ports import Session
from longhall.doors.kafka.wire.apis import API, decode_response, encode_request
from longhall.doors.kafka.wire.messages.cluster import FindCoordinatorRequest, MetadataRequest, MetadataRequestTopic
from longhall.doors.kafka.wire.schema import Message
from longhall.log.background_jobs import BACKGROUND_JOBS
from simulation.replicas.host_names import name_of
from simulation.replicas.simulated_cluster import SimulatedCluster
from simulation.scenarios.machine import KAFKA_PORT
from tests.cluster.test_unfit import other_leader, play
from tests.doors.kafka.asking import batch, produce_request
from tests.doors.memory_transport import answer_in_memory

COORDINATOR_NOT_AVAILABLE, LEADER_NOT_AVAILABLE = 15, 5


def standing(in_sync: Iterable[int], connected: Iterable[int]) -> Callable[[], ReplicaStatus]:
    """Node 1 leads these."""
    followers = [
        FollowerStatus(
            node=node, connected=node in connected, in_sync=node in in_sync, index=0, lag_entries=0, lag_ms=0
        )
        for node in (2, 3)
    ]
    status = ReplicaStatus(
        node=1,
        role=Role.LEADER,
        leader=1,
        epoch=1,
        index=0,
        committed=0,
        applied=0,
        in_sync=sorted(in_sync),
        followers=followers,
    )
    return lambda: status


async def test_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    side = LeadershipSuspicion(in_sync_min=2)
    alone = standing((1, 2, 3), ())
    assert not side.has_reason(alone)
    side.session_changed(Session.SUSPENDED)
    assert not side.has_reason(alone)  # Not yet.
    monkeypatch.setattr(leadership_suspicion, "LOST_S", -1.0)
    assert side.has_reason(alone)
    assert side.has_reason(standing((1, 2), (3,)))  # Who is not in sync does not count.
    assert not side.has_reason(standing((1, 2, 3), (3,)))
    assert not side.has_reason(standing((1,), ()))
    side.session_changed(Session.EXPIRED)
    assert side.has_reason(alone)
    side.session_changed(Session.CONNECTED)
    assert not side.has_reason(alone)


async def ask(fleet: SimulatedCluster, number: int, message: Message, version: int) -> Any:
    """What the Kafka door of a node answers."""
    api = next(row for row in API.values() if row.request is type(message))
    frame = encode_request(1, "test", version, message)
    answer = await answer_in_memory(fleet.nodes[number].doors.kafka.entrance, "client", frame)
    return decode_response(api.key, version, answer[4:])[1]


class Client(asyncio.Protocol):
    """A connection to a node's Kafka door, from outside."""

    def __init__(self) -> None:
        self.received = b""
        self.open = True

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: Any = transport

    def data_received(self, data: bytes) -> None:
        self.received += data

    def connection_lost(self, error: Exception | None) -> None:
        self.open = False

    def send(self, message: Message, version: int) -> None:
        self._transport.write(encode_request(1, "test", version, message))


async def connect(fleet: SimulatedCluster, number: int, name: str) -> Client:
    network = fleet.simulation.host(name).boot(BACKGROUND_JOBS).network
    found = await network.connect(Client, name_of(number), KAFKA_PORT)
    assert isinstance(found, Client)
    return found


async def told(fleet: SimulatedCluster, number: int) -> tuple[int, int, int]:
    """Who leads a topic and the catalogue, as this node says, and with which error."""
    found = await ask(fleet, number, MetadataRequest(topics=[MetadataRequestTopic(name="t")]), 9)
    (partition,) = found.topics[0].partitions
    return partition.leader_id, found.controller_id, partition.error_code


async def until_told(fleet: SimulatedCluster, number: int, wanted: tuple[int, int, int]) -> None:
    for _ in range(150):
        if await told(fleet, number) == wanted:
            return
        await asyncio.sleep(0.1)
    raise AssertionError(f"node {number} does not say {wanted}")


def test_a_leader_that_hears_nobody_names_nobody_and_the_others_name_the_next() -> None:
    async def script(fleet: SimulatedCluster, cut: int) -> None:
        await create_topic(fleet.nodes[cut].hall, "t", 1, {})
        await until_told(fleet, cut, (cut, cut, 0))
        sender, other = await connect(fleet, cut, "sender"), await connect(fleet, cut, "other")
        fabric = fleet.simulation.fabric
        others = [number for number in fleet.numbers if number != cut]
        links = [pair for other in others for pair in ((name_of(cut), name_of(other)), (name_of(other), name_of(cut)))]
        fleet.cut_coordinator(cut)
        for source, target in links:
            fabric.cut(source, target)
        sender.send(produce_request([("t", 0)], batch()), 9)
        await until_told(fleet, cut, (-1, -1, LEADER_NOT_AVAILABLE))
        await asyncio.sleep(2)
        assert not sender.open  # It is not to wait for what cannot be committed here,
        assert sender.received == b""  # and nobody knows whether it will be.
        assert other.open
        found = await ask(fleet, cut, FindCoordinatorRequest(key="g"), 2)
        assert found.error_code == COORDINATOR_NOT_AVAILABLE
        brokers = (await ask(fleet, cut, MetadataRequest(topics=[]), 9)).brokers
        assert [broker.node_id for broker in brokers] == fleet.numbers  # So that clients find the others.
        await other_leader(fleet, cut)
        leader = next(number for number in others if fleet.nodes[number] is fleet.leader())
        await until_told(fleet, others[0], (leader, leader, 0))
        assert await told(fleet, cut) == (-1, -1, LEADER_NOT_AVAILABLE)
        fleet.heal_coordinator(cut)
        for source, target in links:
            fabric.heal(source, target)
        await fleet.up(60)
        await until_told(fleet, cut, (leader, leader, 0))

    play(script)


def test_a_leader_without_the_coordinator_leads_on_and_says_so() -> None:
    async def script(fleet: SimulatedCluster, leader: int) -> None:
        await create_topic(fleet.nodes[leader].hall, "t", 1, {})
        for number in fleet.numbers:
            fleet.cut_coordinator(number)
        sender = await connect(fleet, leader, "sender")
        for _ in range(40):
            sender.send(produce_request([("t", 0)], batch()), 9)
            assert await told(fleet, leader) == (leader, leader, 0)
            await asyncio.sleep(0.25)
        found = await ask(fleet, leader, FindCoordinatorRequest(key="g"), 2)
        assert (found.error_code, found.node_id) == (0, leader)
        assert sender.open
        partition = fleet.nodes[leader].hall.partition("t", 0)
        assert partition is not None
        assert partition.high_watermark == 40
        for number in fleet.numbers:
            fleet.heal_coordinator(number)
        await fleet.up(60)
        assert fleet.leader_number() == leader

    play(script)

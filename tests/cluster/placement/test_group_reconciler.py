"""The reconciler of a whole simulated cluster: names that are used again, and leaders that lead no more."""

from __future__ import annotations

import asyncio
import gc
import sys
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from longhall.broker.catalogue import Topic
from longhall.broker.configuration import resolve
from longhall.broker.events import TopicCreated
from longhall.broker.hall import Hall
from longhall.broker.options import HallOptions
from longhall.broker.pending import failed
from longhall.broker.placement import WING_STEP
from longhall.broker.topic_administration import create_topic, delete_topic
from longhall.cluster.membership.controller import Controller
from longhall.cluster.placement import topic_presence
from longhall.cluster.placement.group_reconciler import GroupReconciler
from longhall.cluster.placement.topic_presence import YOUNG_MS, TopicPresence
from longhall.doors.kafka.wire.messages.cluster import MetadataRequest, MetadataRequestTopic
from longhall.errors import Code, LonghallError
from longhall.names import CATALOGUE_SHARD
from longhall.queues.messages import Outgoing
from longhall.queues.settings import QueueSettings
from longhall.service.queue_operations import CreateQueue, DeleteQueue, ForkQueue, ReceiveMessages, SendMessages
from simulation.replicas.group_processes import GroupProcesses
from simulation.replicas.simulated_cluster import SimulatedCluster
from simulation.world import Simulation
from tests.cluster.replication.test_leadership_suspicion import LEADER_NOT_AVAILABLE, ask
from tests.cluster.test_unfit import other_leader

PLACED = {"longhall.placement": "any-host"}
AWAY = 2  # The wing.


def lives_in(wards: GroupProcesses, number: int, name: str) -> set[bytes]:
    """The ids under which the leader of a wing has this name."""
    for fleet in wards.wings.values():
        leader = fleet.leader()
        if fleet.wing is not None and fleet.wing.number == number and leader is not None:
            topic = leader.hall.topic(name)
            return {topic.topic_id} if topic is not None else set()
    return set()


def is_led(wards: GroupProcesses, number: int) -> bool:
    wings = [fleet for fleet in wards.wings.values() if fleet.wing is not None and fleet.wing.number == number]
    return any(fleet.leader() is not None for fleet in wings)


async def named(fleet: SimulatedCluster, number: int, name: str) -> list[tuple[int, int]]:
    """By partition, the wing that clients are sent to, and the error; 0 for none."""
    found = await ask(fleet, number, MetadataRequest(topics=[MetadataRequestTopic(name=name)]), 9)
    rows = sorted(found.topics[0].partitions, key=lambda row: row.partition_index)
    return [(max(row.leader_id, 0) // WING_STEP, row.error_code) for row in rows]


async def until_named(fleet: SimulatedCluster, number: int, wanted: list[tuple[int, int]]) -> None:
    for _ in range(1000):
        if await named(fleet, number, "t") == wanted:
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"clients are not sent to {wanted}")


def part(monkeypatch: pytest.MonkeyPatch, away: set[int]) -> None:
    """Groups that are away are cut off from the leader of the hall, and not from clients."""
    good: Any = GroupReconciler.call

    def call(self: Any, number: int, *what: Any, now: bool = False, **more: Any) -> Any:
        if number in away:
            return failed(LonghallError(Code.NOT_LEADER if now else Code.NOT_READY, "it is cut off"))
        return good(self, number, *what, now=now, **more)

    monkeypatch.setattr(GroupReconciler, "call", call)


async def use_again(fleet: SimulatedCluster, wards: GroupProcesses, away: set[int]) -> bool:
    """Whether the wing that was away has the new topic in the end, and that alone."""
    fleet.start()
    await fleet.up(60)
    leader = fleet.leader_number()
    hall: Hall = fleet.nodes[leader].hall
    first = await create_topic(hall, "t", 3, PLACED)
    assert first is not None
    everywhere = [(number, 0) for number in first.options.wings]
    assert await named(fleet, leader, "t") == everywhere

    away.add(AWAY)
    await delete_topic(hall, "t")
    with pytest.raises(LonghallError) as late:
        await create_topic(hall, "t", 3, PLACED)
    assert late.value.code is Code.TIMED_OUT  # It is not acknowledged before all wings have it.
    second = hall.topic("t")
    assert second is not None
    assert lives_in(wards, AWAY, "t") == {first.topic_id}
    without = [row if row[0] != AWAY else (0, LEADER_NOT_AVAILABLE) for row in everywhere]
    await until_named(fleet, leader, without)  # The others have been asked at the same time.
    await asyncio.sleep(4)
    assert await named(fleet, leader, "t") == without  # However long that takes.

    away.clear()
    await until_named(fleet, leader, everywhere)
    return lives_in(wards, AWAY, "t") == {second.topic_id}


def queues_in(wards: GroupProcesses, number: int, name: str) -> set[bytes]:
    """The ids under which the leader of a wing has this queue."""
    for fleet in wards.wings.values():
        leader = fleet.leader()
        if fleet.wing is not None and fleet.wing.number == number and leader is not None:
            entry = leader.hall.catalogue.queues.by_name.get(name)
            return {entry.queue_id} if entry is not None else set()
    return set()


async def until(condition: Callable[[], bool], what: str) -> None:
    for _ in range(1000):
        if condition():
            return
        await asyncio.sleep(0.01)
    raise AssertionError(what)


async def queue_again(fleet: SimulatedCluster, wards: GroupProcesses, away: set[int]) -> bool:
    """Whether the wing that was away has the new queue over a topic in the end, from its offset on, and that alone."""
    fleet.start()
    await fleet.up(60)
    node = fleet.nodes[fleet.leader_number()]
    await node.service.dispatch(CreateQueue("q", QueueSettings(placement="any-host", settled="keep")))
    sent = [Outgoing(body=b"%d" % number) for number in range(30)]
    await node.service.dispatch(SendMessages("q", sent))
    await node.service.dispatch(ForkQueue("q", "x"))
    first = node.hall.catalogue.queues.by_name["x"].queue_id
    assert all(queues_in(wards, number, "x") == {first} for number in (1, 2, 3))

    away.add(AWAY)
    await node.service.dispatch(DeleteQueue("x"))
    assert queues_in(wards, AWAY, "x") == {first}
    away.clear()
    await until(lambda: not queues_in(wards, AWAY, "x"), "the comparison removes the deleted queue")
    away.add(AWAY)
    with pytest.raises(LonghallError):
        await node.service.dispatch(ForkQueue("q", "x", {0: 1, 1: 1, 2: 1}))
    away.clear()
    await node.service.dispatch(ForkQueue("q", "x"))
    second = node.hall.catalogue.queues.by_name["x"].queue_id
    away.add(AWAY)
    await node.service.dispatch(DeleteQueue("x"))
    node.cluster_node.group_directory.look_s = 1e9  # type: ignore[union-attr]
    away.clear()
    await node.service.dispatch(CreateQueue("x", QueueSettings(), topic="q"))  # It makes way at once.
    third = node.hall.catalogue.queues.by_name["x"].queue_id
    assert third != second
    return queues_in(wards, AWAY, "x") == {third}


async def depose(fleet: SimulatedCluster, wards: GroupProcesses) -> bool:
    """A leader that does not know yet that another one leads looks into the wings, and finds what that one has made.
    Whether it stays in all of them, while the leader goes on to believe that it leads.
    """
    fleet.start()
    await fleet.up(60)
    deposed = fleet.leader_number()
    assert await create_topic(fleet.nodes[deposed].hall, "old", 3, PLACED) is not None
    cluster_node = fleet.nodes[deposed].cluster_node
    assert cluster_node is not None
    assert cluster_node.group_directory is not None
    cluster_node.group_directory.look_s = 0.0
    fleet.cut_coordinator(deposed)
    leader = await other_leader(fleet, deposed)
    made = await create_topic(leader.hall, "t", 3, PLACED)
    assert made is not None
    await leader.service.dispatch(CreateQueue("over", QueueSettings(), topic="old"))
    queue_id = leader.hall.catalogue.queues.by_name["over"].queue_id
    kept: list[bool] = []
    for _ in range(60):
        await asyncio.sleep(0.1)
        led = [number for number in made.options.wings if is_led(wards, number)]  # One may just hand over.
        kept.append(all(lives_in(wards, number, "t") == {made.topic_id} for number in led))
        kept.append(all(queues_in(wards, number, "over") == {queue_id} for number in led))
    return all(kept) and cluster_node.session.leads(CATALOGUE_SHARD)


async def spread_and_move(fleet: SimulatedCluster, wards: GroupProcesses) -> bool:
    """What has no placement is in the wings of all hosts, the map says where, and a wing that prefers another host is
    led there, with everything that it had.
    """
    fleet.start()
    await fleet.up(60)
    leader = fleet.nodes[fleet.leader_number()]
    cluster_node = leader.cluster_node
    assert cluster_node is not None
    directory, cluster_map, balancer = cluster_node.group_directory, cluster_node.map, cluster_node.balancer
    assert directory is not None
    assert cluster_map is not None
    assert balancer is not None
    for _ in range(600):
        if len(directory.spread()) == 3:
            break
        await asyncio.sleep(0.1)
    assert len(directory.spread()) == 3, "the hosts have wings without a placement"
    for number in range(6):
        await leader.service.dispatch(CreateQueue(f"q{number}", QueueSettings()))
    await leader.service.dispatch(SendMessages("q0", [Outgoing(body=b"here")]))
    await create_topic(leader.hall, "t", 2, {})
    page = await cluster_map.page("", "", 4)
    assert [row.name for row in page.partitions] == ["q0", "q1", "q2", "q3"]
    rest = await cluster_map.page("", page.next, 4)
    assert ([row.name for row in rest.partitions], rest.next) == (["q4", "q5", "t", "t"], "")
    rows = page.partitions + rest.partitions
    assert sorted(Counter(row.group for row in rows).items()) == [
        ("host-1", 3),
        ("host-2", 3),
        ("host-3", 2),
    ]
    assert all(row.leader in row.in_sync and len(row.replicas) == 3 and row.size_bytes is not None for row in rows)
    assert (rows[0].messages, rows[0].kind, rows[-1].kind) == (1, "queue", "topic")
    assert (await cluster_map.page("q4", "", 4)).partitions == [rows[4]]

    home = rows[0].leader
    target = next(number for number in fleet.nodes if number != home)
    await directory.prefer(rows[0].group, target)
    for _ in range(600):
        (row,) = (await cluster_map.page("q0", "", 1)).partitions
        if row.leader == target and len(row.in_sync) == 3:
            break
        await asyncio.sleep(0.1)
    assert (row.leader, row.group) == (target, rows[0].group)
    received = await leader.service.dispatch(ReceiveMessages("q0", 1, 0, 30_000))
    assert (await balancer.balance(dry_run=True)).begun is False
    return [one.body for one in received] == [b"here"]


def run(
    monkeypatch: pytest.MonkeyPatch, play: Callable[[SimulatedCluster, GroupProcesses], Coroutine[Any, Any, bool]]
) -> bool:
    simulation = Simulation(1)
    fleet = SimulatedCluster(simulation)
    held: bool = simulation.run(play(fleet, GroupProcesses(fleet)))
    simulation.close()
    del simulation, fleet
    with monkeypatch.context() as quiet:  # Coroutines in the middle of something have last words.
        quiet.setattr(sys, "unraisablehook", lambda _: None)
        gc.collect()
    return held


def test_a_wing_is_named_for_a_topic_when_it_has_that_and_not_an_earlier_one(monkeypatch: pytest.MonkeyPatch) -> None:
    away: set[int] = set()
    part(monkeypatch, away)
    monkeypatch.setattr(topic_presence, "YOUNG_MS", 3000)
    assert run(monkeypatch, lambda fleet, wards: use_again(fleet, wards, away))


def test_a_wing_that_was_away_has_the_queue_over_a_topic_and_not_an_earlier_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    away: set[int] = set()
    part(monkeypatch, away)
    assert run(monkeypatch, lambda fleet, wards: queue_again(fleet, wards, away))


def test_what_a_deposed_leader_does_not_know_stays_where_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    async def nobody(*what: Any) -> frozenset[int]:
        return frozenset()

    # A leader that the controller reaches transfers its leadership, and knows that it was deposed.
    monkeypatch.setattr(Controller, "_living_leader", nobody)
    assert run(monkeypatch, depose)


def test_what_has_no_placement_is_spread_and_a_wing_moves_to_another_host(monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(monkeypatch, spread_and_move)


def test_what_is_known_of_lives() -> None:
    created = TopicCreated(topic_id=b"1" * 16, name="t", partitions=[1], configuration={}, at_ms=1000, shard=0)
    topic = Topic(created, resolve(HallOptions(), {}))
    young, old = 1000 + YOUNG_MS - 1, 1000 + YOUNG_MS
    fresh = TopicPresence()  # Of a node that has just begun to lead.
    assert [fresh.is_there(1, topic, now_ms) for now_ms in (1000, young, old)] == [False, False, True]
    fresh.has(1, topic.topic_id)
    assert fresh.is_there(1, topic, young)
    assert not fresh.is_there(2, topic, young)
    fresh.begins(2, topic, young)
    assert not fresh.is_there(2, topic, old)
    fresh.forget({topic.topic_id: topic}, old)
    assert [fresh.is_there(wing, topic, old) for wing in (1, 2)] == [True, False]
    fresh.has(2, topic.topic_id)
    assert fresh.is_there(2, topic, old)
    fresh.begins(3, topic, old)  # What is only changed is there meanwhile.
    assert fresh.is_there(3, topic, old)
    fresh.begins(4, topic, young)
    fresh.forget({}, old)
    assert fresh.is_there(4, topic, old)

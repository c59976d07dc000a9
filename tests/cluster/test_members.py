"""Three replicas in the simulated world, one fault at a time: what a user would notice."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from longhall.cluster.membership.controller import Controller
from longhall.cluster.membership.coordinator_session import LOOK_S
from longhall.cluster.replication.group_replica import Role
from longhall.coordination.ports import Manager
from longhall.errors import Code
from simulation.replicas.hall_contents import contents_of
from simulation.replicas.host_names import name_of
from simulation.replicas.log_cluster import TOPIC, LogCluster, little_memory
from simulation.replicas.member_node import MemberNode
from simulation.world import Simulation

NODES = [1, 2, 3]

Play = Callable[[LogCluster], Coroutine[Any, Any, None]]


def play(script: Play, seed: int = 1) -> LogCluster:
    """Start three nodes, wait for a leader and a topic, and run the script."""
    simulation = Simulation(seed)
    cluster = LogCluster(simulation)

    async def whole() -> None:
        cluster.start()
        await cluster.make_topic()
        await script(cluster)

    with little_memory(simulation):
        simulation.run(whole())
    simulation.close()
    return cluster


async def produce(node: MemberNode, value: str, partition: int = 0, patience_s: float = 3.0) -> int | None:
    """The offset, -1 for a refusal, None if there was no answer in time."""
    process = node.process
    task = process.start(node.produce(TOPIC, partition, [value]))
    waited: list[asyncio.Future[Any]] = [task, process.ended]
    await asyncio.wait(waited, timeout=patience_s, return_when=asyncio.FIRST_COMPLETED)
    return task.result() if task.done() else None


async def produced(cluster: LogCluster, count: int, word: str, seconds: float = 20.0) -> None:
    """Send until the leader has acknowledged so many messages."""
    deadline = asyncio.get_running_loop().time() + seconds
    for number in range(count):
        while True:
            assert asyncio.get_running_loop().time() < deadline, "no node accepts messages"
            leader = await cluster.wait_for_leader()
            value = f"{word}-{number}-{asyncio.get_running_loop().time()}"
            offset = await produce(leader, value)
            if offset is not None and offset >= 0:
                cluster.committed_log.acknowledge(value, TOPIC, 0, offset)
                break
            await cluster.pass_time(0.1)


def hosts_of_followers(cluster: LogCluster, leader: MemberNode) -> list[int]:
    return [node for node in NODES if node != leader.node]


def test_every_replica_has_the_acknowledged_messages() -> None:
    async def script(cluster: LogCluster) -> None:
        await produced(cluster, 20, "a")
        await cluster.settle()
        cluster.check_contents()
        for node in cluster.nodes.values():
            assert len(contents_of(node.hall)[(TOPIC, 0)]) == 20

    play(script)


def test_a_follower_refuses_messages_and_names_the_leader() -> None:
    async def script(cluster: LogCluster) -> None:
        leader = await cluster.wait_for_leader()
        for number in hosts_of_followers(cluster, leader):
            node = cluster.nodes[number]
            assert await produce(node, "x") == -1
            assert node.hall.refusal is Code.NOT_LEADER
            assert node.member.role_of(0) is Role.FOLLOWER
            assert node.member.leader_of(0) == leader.node

    play(script)


@pytest.mark.parametrize("how", ["kill", "power"])
def test_nothing_is_lost_when_the_leader_dies(how: str) -> None:
    async def script(cluster: LogCluster) -> None:
        await produced(cluster, 10, "before")
        first = await cluster.wait_for_leader()
        cluster.down.add(first.node)
        host = cluster.host(first.node)
        if how == "kill":
            host.kill()
        else:
            host.cut_power()
        await produced(cluster, 10, "after")
        second = await cluster.wait_for_leader()
        assert second.node != first.node
        assert len(contents_of(second.hall)[(TOPIC, 0)]) >= 20
        cluster.down.clear()
        await cluster.settle()
        cluster.check_contents()

    play(script)


def test_a_paused_leader_is_fenced_when_it_resumes() -> None:
    async def script(cluster: LogCluster) -> None:
        await produced(cluster, 5, "before")
        old = await cluster.wait_for_leader()
        resume = cluster.pause(old.node)
        assert resume is not None
        for _ in range(60):
            await cluster.pass_time(0.1)
        await produced(cluster, 5, "meanwhile")
        resume()
        answer = await produce(old, "stale", patience_s=5.0)
        assert answer is None or answer < 0
        await cluster.settle()
        cluster.check_contents()
        for node in cluster.nodes.values():
            assert "stale" not in contents_of(node.hall)[(TOPIC, 0)].values()

    play(script)


def test_entries_of_an_isolated_leader_are_truncated_when_it_returns() -> None:
    async def script(cluster: LogCluster) -> None:
        await produced(cluster, 5, "before")
        old = await cluster.wait_for_leader()
        others = hosts_of_followers(cluster, old)
        fabric = cluster.simulation.fabric
        for other in others:
            fabric.cut(name_of(old.node), name_of(other))
            fabric.cut(name_of(other), name_of(old.node))
        cluster.cut_coordinator(old.node)
        lonely = [asyncio.ensure_future(produce(old, f"lonely-{number}", patience_s=20.0)) for number in range(3)]
        for _ in range(60):
            await cluster.pass_time(0.1)
        await produced(cluster, 5, "meanwhile")
        for other in others:
            fabric.heal(name_of(old.node), name_of(other))
            fabric.heal(name_of(other), name_of(old.node))
        cluster.heal_coordinator(old.node)
        await cluster.settle()
        cluster.check_contents()
        assert [await answer for answer in lonely] == [None, None, None]
        for node in cluster.nodes.values():
            assert not any(value.startswith("lonely") for value in contents_of(node.hall)[(TOPIC, 0)].values())

    play(script)


def test_a_leader_serves_without_the_coordinator_while_all_replicas_answer() -> None:
    async def script(cluster: LogCluster) -> None:
        await cluster.settle()
        leader = await cluster.wait_for_leader()
        cluster.simulated_cluster.zookeeper.stop()
        await produced(cluster, 10, "without")
        assert cluster.leader() is leader

    play(script)


def test_one_lost_host_refuses_no_send_and_two_do() -> None:
    async def script(cluster: LogCluster) -> None:
        await cluster.settle()
        leader = await cluster.wait_for_leader()
        first, second = hosts_of_followers(cluster, leader)
        cluster.down.add(first)
        cluster.host(first).kill()
        await produced(cluster, 3, "two")
        assert cluster.in_sync() == sorted([leader.node, second])
        cluster.down.add(second)
        cluster.host(second).kill()
        for _ in range(50):
            await cluster.pass_time(0.1)
        assert leader.hall.refusal is Code.NOT_ENOUGH_REPLICAS
        assert await produce(leader, "alone") == -1
        cluster.down.clear()
        await produced(cluster, 3, "again")
        await cluster.settle()
        cluster.check_contents()

    play(script)


def test_a_follower_catches_up_after_a_long_absence() -> None:
    async def script(cluster: LogCluster) -> None:
        leader = await cluster.wait_for_leader()
        late = hosts_of_followers(cluster, leader)[0]
        before = cluster.simulated_cluster.fetches[late]
        cluster.down.add(late)
        cluster.host(late).kill()
        await produced(cluster, 150, "x" * 500, seconds=60.0)
        cluster.down.clear()
        await cluster.settle()
        cluster.check_contents()
        assert cluster.simulated_cluster.fetches[late] == before

    play(script)


def test_a_host_with_an_empty_disk_does_a_full_sync() -> None:
    async def script(cluster: LogCluster) -> None:
        await produced(cluster, 30, "x" * 60_000)
        for _ in range(20):
            await cluster.pass_time(0.1)
        leader = await cluster.wait_for_leader()
        leader.hall.checkpoint_wanted = True
        for _ in range(30):
            await cluster.pass_time(0.1)
        # Entries older than the checkpoint are no longer in the log.
        leader.hall.positions.release_before(leader.hall.wal.end)
        late = hosts_of_followers(cluster, leader)[0]
        before = cluster.simulated_cluster.fetches[late]
        cluster.down.add(late)
        cluster.host(late).kill()
        cluster.host(late).platter = type(cluster.host(late).platter)()
        await produced(cluster, 5, "meanwhile")
        cluster.down.clear()
        await cluster.settle()
        cluster.check_contents()
        assert cluster.simulated_cluster.fetches[late] == before + 1

    play(script)


def test_nothing_is_lost_when_all_nodes_lose_power_at_once() -> None:
    async def script(cluster: LogCluster) -> None:
        for number in range(3):
            await produced(cluster, 10, f"round-{number}")
            for node in NODES:
                cluster.host(node).cut_power()
        await produced(cluster, 1, "last")
        await cluster.settle()
        cluster.check_contents()

    play(script)


def test_an_idle_cluster_rarely_calls_the_coordinator(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[float] = []
    look = Controller.look

    async def counted(self: Controller, term: Manager) -> bool:
        looks.append(asyncio.get_running_loop().time())
        return await look(self, term)

    async def script(cluster: LogCluster) -> None:
        await cluster.settle()
        looks.clear()
        await cluster.pass_time(20.0)

    monkeypatch.setattr(Controller, "look", counted)
    play(script)
    assert 20 < len(looks) <= 20 / LOOK_S + 1

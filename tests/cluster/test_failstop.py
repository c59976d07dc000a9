"""Replicas whose state differs from the log: three whole nodes in the simulated world."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from longhall.broker.checkpoint import checkpoint
from longhall.broker.events import TopicCreated
from longhall.broker.replay import Replay
from longhall.cluster.replication.repair_policy import RepairPolicy
from longhall.log.frames import Entry
from longhall.node.assembly import Node
from longhall.shards.shard import Committable
from simulation.replicas.node_observer import member_of
from simulation.replicas.simulated_cluster import DIGEST_MS, SimulatedCluster
from simulation.world import Simulation


def play(script: Callable[[SimulatedCluster, int], Coroutine[Any, Any, None]], size: int = 3) -> None:
    """Start the nodes, wait until all are in sync, and run the script with the number of the leader."""
    simulation = Simulation(1)
    cluster = SimulatedCluster(simulation, size)

    async def whole() -> None:
        cluster.start()
        await cluster.up(60)
        await script(cluster, cluster.leader_number())
        await cluster.up(60)
        await cluster.watch.check_copies()

    simulation.run(whole())
    simulation.close()


class _Nobody(Committable):
    def committed(self, value: int) -> None:
        """No client waits for this entry."""


def make_topic(node: Node, name: str) -> None:
    number = node.hall.catalogue.next_partition
    created = TopicCreated(
        name=name, topic_id=name.encode().ljust(16, b"."), partitions=[number], configuration={}, at_ms=1
    )
    node.hall.append_catalogue(created, _Nobody())


def fail_next(node: Node, error: Exception, times: int = 1) -> list[Entry]:
    """Let this node fail with the error when it applies its next entries."""
    member = member_of(node)
    assert member is not None
    replay: Replay = member.follower.applier._replay
    good, failed = replay.take, list[Entry]()

    def take(entry: Entry) -> None:
        if len(failed) < times:
            failed.append(entry)
            raise error
        good(entry)

    setattr(replay, "take", take)  # noqa: B010
    return failed


def alter(cluster: SimulatedCluster, number: int) -> None:
    """Change the state of a node without an entry."""
    cluster.watch.alter(number, lambda hall: "retention.ms" in hall.catalogue.topics["first"].configuration)
    cluster.nodes[number].hall.catalogue.topics["first"].configuration["retention.ms"] = "1"


def repairs_of(cluster: SimulatedCluster, number: int) -> RepairPolicy:
    return cluster.repairs[number]


@pytest.mark.parametrize(
    ("error", "full_syncs"), [(OSError(errno.EIO, "no answer"), 0), (KeyError("what nobody expected"), 1)]
)
def test_a_follower_that_cannot_apply_an_entry_is_repaired(error: Exception, full_syncs: int) -> None:
    async def script(cluster: SimulatedCluster, leader: int) -> None:
        follower = next(number for number in cluster.numbers if number != leader)
        node, led = cluster.nodes[follower], cluster.nodes[leader]
        failed = fail_next(node, error)
        make_topic(led, "first")
        make_topic(led, "second")
        await asyncio.sleep(0.5)
        assert len(failed) == 1  # Nothing was applied after it.
        assert "second" not in node.hall.catalogue.topics
        await cluster.up(60)
        assert {"first", "second"} <= set(cluster.nodes[follower].hall.catalogue.topics)
        repairs = repairs_of(cluster, follower)
        assert (repairs.apply_failures, repairs.full_syncs) == (1, full_syncs)

    play(script)


def test_a_failed_replica_publishes_no_snapshot_and_is_not_elected() -> None:
    async def script(cluster: SimulatedCluster, leader: int) -> None:
        follower = next(number for number in cluster.numbers if number != leader)
        node, led = cluster.nodes[follower], cluster.nodes[leader]
        member, cluster_node = member_of(node), node.cluster_node
        assert member is not None
        assert cluster_node is not None
        setattr(cluster_node, "repair", lambda leader, failure: None)  # noqa: B010
        fail_next(node, KeyError("x"))
        make_topic(led, "first")
        await asyncio.sleep(1)
        with pytest.raises(OSError, match="not what the log says"):
            await checkpoint(node.hall)
        before = node.hall.checkpoints
        await asyncio.sleep(10)
        assert node.hall.checkpoints == before
        assert follower not in cluster.in_sync()
        assert "cannot be applied" in (node.hall.failed)
        cluster_node.restart("the test is over")

    play(script)


def test_replicas_compare_their_state_once_an_interval_while_something_is_written() -> None:
    async def script(cluster: SimulatedCluster, leader: int) -> None:
        member = member_of(cluster.nodes[leader])
        assert member is not None
        await asyncio.sleep(10)
        idle = member.status().compared
        await asyncio.sleep(10)
        assert member.status().compared == idle
        for number in range(10):
            make_topic(cluster.nodes[leader], f"topic-{number}")
            await asyncio.sleep(DIGEST_MS / 1000)
        assert idle + 8 <= member.status().compared <= idle + 11
        assert member.status().divergent == []

    play(script)


def test_a_divergent_follower_is_found_and_does_a_full_sync() -> None:
    async def script(cluster: SimulatedCluster, leader: int) -> None:
        follower = next(number for number in cluster.numbers if number != leader)
        make_topic(cluster.nodes[leader], "first")
        await asyncio.sleep(5)
        alter(cluster, follower)
        make_topic(cluster.nodes[leader], "second")
        await asyncio.sleep(10)
        repairs = repairs_of(cluster, follower)
        assert (repairs.divergences, repairs.full_syncs) == (1, 1)
        assert cluster.leader_number() == leader

    play(script)


def test_a_divergent_leader_hands_over_and_does_a_full_sync() -> None:
    async def script(cluster: SimulatedCluster, leader: int) -> None:
        make_topic(cluster.nodes[leader], "first")
        await asyncio.sleep(5)
        alter(cluster, leader)
        make_topic(cluster.nodes[leader], "second")
        await asyncio.sleep(15)
        assert cluster.leader_number() != leader
        assert repairs_of(cluster, leader).divergences == 1

    play(script)


def test_two_divergent_replicas_raise_an_alarm_and_keep_both_copies() -> None:
    async def script(cluster: SimulatedCluster, leader: int) -> None:
        follower = next(number for number in cluster.numbers if number != leader)
        make_topic(cluster.nodes[leader], "first")
        await asyncio.sleep(5)
        alter(cluster, follower)
        make_topic(cluster.nodes[leader], "second")
        await asyncio.sleep(10)
        member = member_of(cluster.nodes[leader])
        assert member is not None
        assert member.status().divergent == [1, 2]
        assert repairs_of(cluster, follower).full_syncs == repairs_of(cluster, leader).full_syncs == 0
        del cluster.nodes[follower].hall.catalogue.topics["first"].configuration["retention.ms"]
        make_topic(cluster.nodes[leader], "third")
        await asyncio.sleep(10)
        assert member.status().divergent == []

    play(script, size=2)

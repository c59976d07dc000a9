"""Replicas whose state is not what the log says: three whole nodes in the simulated world."""

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
from simulation.replicas.fleet import DIGEST_MS, Fleet
from simulation.replicas.observed import member_of
from simulation.world import Simulation


def play(script: Callable[[Fleet, int], Coroutine[Any, Any, None]], size: int = 3) -> None:
    """Start the nodes, wait until they are whole, and run the script with the number of the leader."""
    simulation = Simulation(1)
    fleet = Fleet(simulation, size)

    async def whole() -> None:
        fleet.start()
        await fleet.up(60)
        await script(fleet, fleet.leader_number())
        await fleet.up(60)
        await fleet.watch.check_copies()

    simulation.run(whole())
    simulation.close()


class _Nobody(Committable):
    def committed(self, value: int) -> None:
        """Nobody waits."""


def make_topic(node: Node, name: str) -> None:
    number = node.hall.catalogue.next_partition
    created = TopicCreated(
        name=name, topic_id=name.encode().ljust(16, b"."), partitions=[number], configuration={}, at_ms=1
    )
    node.hall.append_catalogue(created, _Nobody())


def fail_next(node: Node, error: Exception, times: int = 1) -> list[Entry]:
    """The next entries that this node applies raise the error."""
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


def alter(fleet: Fleet, number: int) -> None:
    """Change the state of a node behind its back."""
    fleet.watch.alter(number, lambda hall: "retention.ms" in hall.catalogue.topics["first"].configuration)
    fleet.nodes[number].hall.catalogue.topics["first"].configuration["retention.ms"] = "1"


def repairs_of(fleet: Fleet, number: int) -> RepairPolicy:
    return fleet.repairs[number]


@pytest.mark.parametrize(
    ("error", "full_syncs"), [(OSError(errno.EIO, "no answer"), 0), (KeyError("what nobody expected"), 1)]
)
def test_a_follower_that_cannot_apply_an_entry_is_repaired(error: Exception, full_syncs: int) -> None:
    async def script(fleet: Fleet, leader: int) -> None:
        follower = next(number for number in fleet.numbers if number != leader)
        node, led = fleet.nodes[follower], fleet.nodes[leader]
        failed = fail_next(node, error)
        make_topic(led, "first")
        make_topic(led, "second")
        await asyncio.sleep(0.5)
        assert len(failed) == 1  # Nothing was applied after it.
        assert "second" not in node.hall.catalogue.topics
        await fleet.up(60)
        assert {"first", "second"} <= set(fleet.nodes[follower].hall.catalogue.topics)
        assert (repairs_of(fleet, follower).apply_failures, repairs_of(fleet, follower).full_syncs) == (1, full_syncs)

    play(script)


def test_nothing_is_published_of_a_state_that_failed_and_nobody_elects_it() -> None:
    async def script(fleet: Fleet, leader: int) -> None:
        follower = next(number for number in fleet.numbers if number != leader)
        node, led = fleet.nodes[follower], fleet.nodes[leader]
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
        assert follower not in fleet.in_sync()
        assert "cannot be applied" in (node.hall.failed)
        cluster_node.restart("the test is over")

    play(script)


def test_replicas_compare_their_state_once_an_interval_while_something_is_written() -> None:
    async def script(fleet: Fleet, leader: int) -> None:
        member = member_of(fleet.nodes[leader])
        assert member is not None
        await asyncio.sleep(10)
        idle = member.status().compared
        await asyncio.sleep(10)
        assert member.status().compared == idle
        for number in range(10):
            make_topic(fleet.nodes[leader], f"topic-{number}")
            await asyncio.sleep(DIGEST_MS / 1000)
        assert idle + 8 <= member.status().compared <= idle + 11
        assert member.status().divergent == []

    play(script)


def test_a_follower_whose_state_differs_is_found_and_fetches_everything() -> None:
    async def script(fleet: Fleet, leader: int) -> None:
        follower = next(number for number in fleet.numbers if number != leader)
        make_topic(fleet.nodes[leader], "first")
        await asyncio.sleep(5)
        alter(fleet, follower)
        make_topic(fleet.nodes[leader], "second")
        await asyncio.sleep(10)
        repairs = repairs_of(fleet, follower)
        assert (repairs.divergences, repairs.full_syncs) == (1, 1)
        assert fleet.leader_number() == leader

    play(script)


def test_a_leader_whose_state_differs_hands_over_and_fetches_everything() -> None:
    async def script(fleet: Fleet, leader: int) -> None:
        make_topic(fleet.nodes[leader], "first")
        await asyncio.sleep(5)
        alter(fleet, leader)
        make_topic(fleet.nodes[leader], "second")
        await asyncio.sleep(15)
        assert fleet.leader_number() != leader
        assert repairs_of(fleet, leader).divergences == 1

    play(script)


def test_two_replicas_that_differ_raise_an_alarm_and_keep_both_copies() -> None:
    async def script(fleet: Fleet, leader: int) -> None:
        follower = next(number for number in fleet.numbers if number != leader)
        make_topic(fleet.nodes[leader], "first")
        await asyncio.sleep(5)
        alter(fleet, follower)
        make_topic(fleet.nodes[leader], "second")
        await asyncio.sleep(10)
        member = member_of(fleet.nodes[leader])
        assert member is not None
        assert member.status().divergent == [1, 2]
        assert repairs_of(fleet, follower).full_syncs == repairs_of(fleet, leader).full_syncs == 0
        del fleet.nodes[follower].hall.catalogue.topics["first"].configuration["retention.ms"]
        make_topic(fleet.nodes[leader], "third")
        await asyncio.sleep(10)
        assert member.status().divergent == []

    play(script, size=2)

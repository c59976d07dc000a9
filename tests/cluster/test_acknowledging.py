"""Three replicas in the simulated world: which of them has a message when it is acknowledged, and batches beyond
one entry.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from longhall.broker.topic_administration import create_topic
from longhall.errors import Code, LonghallError
from simulation.replicas.hall_contents import contents_of
from simulation.replicas.host_names import name_of
from simulation.replicas.log_cluster import LogCluster
from simulation.replicas.member_node import MemberNode
from tests.cluster.test_members import hosts_of_followers, play

WORDS = ("one", "quorum", "all")
PATIENCE_S = 0.8  # Shorter than the time after which an unreachable replica leaves the in-sync set.


async def make_topics(leader: MemberNode) -> None:
    for word in WORDS:
        configuration = {"longhall.acknowledge": word, "max.message.bytes": str(64 << 20)}
        await leader.process.start(create_topic(leader.hall, word, 1, configuration))


def cut(cluster: LogCluster, leader: MemberNode, others: list[int]) -> None:
    """Cut the links between the leader and these hosts."""
    for other in others:
        cluster.simulation.fabric.cut(name_of(leader.node), name_of(other))
        cluster.simulation.fabric.cut(name_of(other), name_of(leader.node))


def heal(cluster: LogCluster, leader: MemberNode, others: list[int]) -> None:
    for other in others:
        cluster.simulation.fabric.heal(name_of(leader.node), name_of(other))
        cluster.simulation.fabric.heal(name_of(other), name_of(leader.node))


async def told(leader: MemberNode, value: str, patience_s: float = PATIENCE_S) -> list[str]:
    """The topics whose send was acknowledged within a moment."""
    tasks = {word: leader.process.start(leader.produce(word, 0, [value])) for word in WORDS}
    waited: list[asyncio.Future[Any]] = list(tasks.values())
    await asyncio.wait(waited, timeout=patience_s)
    return [word for word, task in tasks.items() if task.done() and task.result() >= 0]


def test_a_send_is_acknowledged_by_as_many_replicas_as_its_topic_requires() -> None:
    async def script(cluster: LogCluster) -> None:
        leader = await cluster.wait_for_leader()
        await make_topics(leader)
        await cluster.wait_until_settled()
        first, second = hosts_of_followers(cluster, leader)
        assert await told(leader, "everybody") == ["one", "quorum", "all"]
        cut(cluster, leader, [first])
        assert await told(leader, "two of three") == ["one", "quorum"]
        heal(cluster, leader, [first])
        await cluster.pass_time(5.0)
        await cluster.wait_until_settled()
        cut(cluster, leader, [first, second])
        assert await told(leader, "one of three") == ["one"]
        heal(cluster, leader, [first, second])
        await cluster.pass_time(5.0)
        await cluster.settle()
        for node in cluster.nodes.values():
            for word in WORDS:
                assert len(contents_of(node.hall)[(word, 0)]) == 3

    play(script)


def test_entries_under_way_when_too_few_replicas_are_left_are_stored_and_not_acknowledged() -> None:
    async def script(cluster: LogCluster) -> None:
        leader = await cluster.wait_for_leader()
        await make_topics(leader)
        await cluster.wait_until_settled()
        others = hosts_of_followers(cluster, leader)
        cut(cluster, leader, others)
        assert await told(leader, "alone", 10.0) == ["one"]
        assert leader.hall.refusal is Code.NOT_ENOUGH_REPLICAS
        for _ in range(50):  # A mark at which replicas compare their state may be on its way to the disk.
            if leader.member.replica.committed == leader.member.index:
                break
            await cluster.pass_time(0.02)
        assert leader.member.replica.committed == leader.member.index
        heal(cluster, leader, others)
        await cluster.settle()
        for node in cluster.nodes.values():
            assert [len(contents_of(node.hall)[(word, 0)]) for word in WORDS] == [1, 1, 1]

    play(script)


def test_a_topic_has_its_own_minimum_of_replicas_in_sync() -> None:
    async def script(cluster: LogCluster) -> None:
        leader = await cluster.wait_for_leader()
        for least in ("1", "2", "3"):
            configuration = {"min.insync.replicas": least}
            await leader.process.start(create_topic(leader.hall, f"at-least-{least}", 1, configuration))
        await leader.process.start(create_topic(leader.hall, "usual", 1, {}))
        await cluster.wait_until_settled()

        async def accepted() -> list[str]:
            names = ("at-least-1", "at-least-2", "at-least-3", "usual")
            return [name for name in names if await leader.process.start(leader.produce(name, 0, ["x"])) >= 0]

        assert await accepted() == ["at-least-1", "at-least-2", "at-least-3", "usual"]
        first, second = hosts_of_followers(cluster, leader)
        cut(cluster, leader, [first])
        await leader.process.start(leader.produce("usual", 0, ["while one is lost"]))
        assert leader.hall.in_sync_count == 2
        assert await accepted() == ["at-least-1", "at-least-2", "usual"]
        cut(cluster, leader, [second])
        await leader.process.start(leader.produce("at-least-1", 0, ["while two are lost"]))
        assert leader.hall.in_sync_count == 1
        assert await accepted() == ["at-least-1"]
        heal(cluster, leader, [first, second])
        await cluster.pass_time(5.0)
        await cluster.settle()
        for node in cluster.nodes.values():
            assert len(contents_of(node.hall)[("at-least-3", 0)]) == 1

    play(script)


def test_readers_do_not_see_what_only_one_host_has() -> None:
    async def script(cluster: LogCluster) -> None:
        leader = await cluster.wait_for_leader()
        await make_topics(leader)
        await cluster.wait_until_settled()
        cut(cluster, leader, hosts_of_followers(cluster, leader))
        assert await told(leader, "x") == ["one"]
        partition = leader.hall.partition("one", 0)
        assert partition is not None
        assert (partition.log.next_offset, partition.high_watermark) == (1, 0)

    play(script)


def test_a_batch_of_several_entries_is_on_every_replica() -> None:
    async def script(cluster: LogCluster) -> None:
        leader = await cluster.wait_for_leader()
        await make_topics(leader)
        await cluster.wait_until_settled()
        large = "x" * (9 << 19)
        for value in (large, "small"):
            assert await leader.process.start(leader.produce("quorum", 0, [value])) >= 0
        await cluster.pass_time(1.0)  # The third one may not have it earlier, and may be elected here.
        for node in cluster.nodes.values():
            cluster.host(node.node).cut_power()
        await cluster.wait_until_settled()
        await cluster.settle()
        for node in cluster.nodes.values():
            found = contents_of(node.hall)[("quorum", 0)]
            assert (len(found[0]), found[1]) == (len(large), "small")

    play(script)


def test_both_are_refused_below_their_feature_level() -> None:
    async def script(cluster: LogCluster) -> None:
        leader = await cluster.wait_for_leader()
        await cluster.wait_until_settled()
        leader.hall.feature_level = 1
        with pytest.raises(LonghallError, match="feature level 2") as refused:
            await create_topic(leader.hall, "weak", 1, {"longhall.acknowledge": "quorum"})
        assert refused.value.code is Code.INVALID_CONFIGURATION
        configuration = {"longhall.acknowledge": "all", "max.message.bytes": str(64 << 20)}
        await leader.process.start(create_topic(leader.hall, "strong", 1, configuration))
        assert await leader.process.start(leader.produce("strong", 0, ["x" * (9 << 19)])) == -1
        assert await leader.process.start(leader.produce("strong", 0, ["x" * (3 << 20)])) == 0

    play(script)

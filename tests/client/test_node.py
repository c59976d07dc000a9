"""The client with a whole node, in virtual time: two members and real transactions."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from longhall.client.groups import Committed, assignment_of
from longhall.client.hall import Hall
from longhall.client.member import GroupMember
from longhall.client.producer import Options, Producer
from longhall.client.reader import Reader
from longhall.client.records import EARLIEST, READ_COMMITTED, READ_UNCOMMITTED
from longhall.client.refusals import Refused
from longhall.errors import Code, LonghallError
from longhall.log.background_jobs import BACKGROUND_JOBS
from longhall.node.assembly import Node
from longhall.node.settings import Settings
from simulation.world import SimulatedWorld, Simulation

Scene = Callable[[Hall, SimulatedWorld], Awaitable[None]]


def play(scene: Scene) -> None:
    simulation = Simulation(11)

    async def run() -> None:
        world = simulation.host("hall").boot(BACKGROUND_JOBS)
        node = Node(world, Settings(data="hall", kafka="hall:9092", http="hall:8080", insecure=True))
        await world.process.start(node.start(_fail))
        here = simulation.host("client").boot()
        hall = await Hall.connect(here.network, "hall:9092")
        try:
            await scene(hall, here)
        finally:
            hall.close()
        await world.process.start(node.stop())

    try:
        simulation.run(run())
    finally:
        simulation.close()


def _fail(failure: OSError) -> None:
    raise AssertionError(failure)


async def read_all(hall: Hall, topic: str, isolation_level: int = READ_COMMITTED) -> list[bytes | None]:
    reader = await Reader.open(hall, topic, EARLIEST, isolation_level=isolation_level)
    found: list[bytes | None] = []
    while not reader.at_end:
        found += [consumed.record.value for consumed in await reader.poll()]
    reader.close()
    return found


async def poll_until(condition: Callable[[], bool], *members: GroupMember) -> None:
    async def keep(member: GroupMember) -> None:
        while not condition():
            await member.poll()

    await asyncio.wait_for(asyncio.gather(*(keep(member) for member in members)), 300)


def test_topic_lifecycle() -> None:
    async def scene(hall: Hall, world: SimulatedWorld) -> None:
        await hall.topics.create("t", partitions=2, configs={"retention.ms": "3600000"})
        with pytest.raises(Refused) as refusal:
            await hall.topics.create("t")
        assert refusal.value.code is Code.TOPIC_EXISTS
        await hall.topics.alter("t", {"retention.ms": None, "max.message.bytes": "2000000"})
        changed = {setting.name: setting.value for setting in await hall.topics.settings("t") if not setting.is_default}
        assert changed == {"max.message.bytes": "2000000"}
        await hall.topics.grow("t", 3)
        assert [len(topic.partitions) for topic in await hall.topics.list()] == [3]
        producer = Producer(hall, world.clock)
        for number in range(10):
            await producer.send("t", b"%d" % number, partition=0)
        await producer.close()
        assert await hall.topics.delete_records("t", {0: 4}) == {0: 4}
        assert await read_all(hall, "t") == [b"%d" % number for number in range(4, 10)]
        assert (await hall.topics.sizes())["t", 0] > 0
        await hall.topics.delete("t")
        with pytest.raises(Refused) as refusal:
            await hall.topics.describe("t")
        assert refusal.value.code is Code.UNKNOWN_TOPIC

    play(scene)


def test_two_members_share_partitions_and_one_takes_over() -> None:
    async def scene(hall: Hall, world: SimulatedWorld) -> None:
        await hall.topics.create("t", partitions=4)
        first = GroupMember(hall, "g", ["t"], session_timeout_ms=10_000, max_wait_ms=100)
        second = GroupMember(hall, "g", ["t"], session_timeout_ms=10_000, max_wait_ms=100)
        await poll_until(lambda: len(first.assignment) == len(second.assignment) == 2, first, second)
        described = await hall.groups.describe("g")
        given = [assignment_of(member).assigned_partitions[0].partitions for member in described.members]
        assert sorted(given) == [[0, 1], [2, 3]]
        assert [group.group_id for group in await hall.groups.list()] == ["g"]
        await second.leave()
        await poll_until(lambda: len(first.assignment) == 4, first)
        await first.commit()
        with pytest.raises(Refused) as refusal:
            await hall.groups.delete("g")
        assert refusal.value.code is Code.GROUP_NOT_EMPTY
        await first.leave()
        assert await hall.groups.offsets("g") == {("t", partition): Committed(0) for partition in range(4)}
        await hall.groups.delete_offsets("g", [("t", 0)])
        await hall.groups.delete("g")
        with pytest.raises(Refused) as refusal:
            await hall.groups.describe("g")
        assert refusal.value.code is Code.GROUP_UNKNOWN

    play(scene)


def test_transactions_are_atomic_for_readers() -> None:
    async def scene(hall: Hall, world: SimulatedWorld) -> None:
        await hall.topics.create("t", partitions=2)
        producer = Producer(hall, world.clock, Options(transactional_id="mine"))
        for word, commits in (("a", True), ("b", False), ("c", True)):
            await producer.begin()
            for number in range(6):
                await producer.send("t", f"{word}{number}".encode(), partition=number % 2)
            await producer.send_offsets("g", {("t", 0): Committed(ord(word))})
            await producer.flush()
            assert [row.transaction_state for row in await hall.transactions.list(["Ongoing"])] == ["Ongoing"]
            await (producer.commit() if commits else producer.abort())
        expected = [f"{word}{number}".encode() for word in "ac" for number in range(6)]
        assert sorted(await read_all(hall, "t"), key=str) == expected
        assert len(await read_all(hall, "t", isolation_level=READ_UNCOMMITTED)) == 18
        assert await hall.groups.offsets("g", stable=True) == {("t", 0): Committed(ord("c"))}

    play(scene)


def test_a_hanging_transaction_is_listed_and_aborted() -> None:
    async def scene(hall: Hall, world: SimulatedWorld) -> None:
        await hall.topics.create("t", partitions=1)
        hung = Producer(hall, world.clock, Options(transactional_id="hung"))
        await hung.begin()
        await hung.send("t", b"never seen", partition=0)
        await hung.flush()
        described = await hall.transactions.describe("hung")
        assert described.transaction_state == "Ongoing"
        assert [(topic.topic, topic.partitions) for topic in described.topics] == [("t", [0])]
        assert [row.current_txn_start_offset for row in await hall.transactions.producers("t", 0)] == [0]
        await hall.transactions.abort("hung")
        assert await read_all(hall, "t") == []
        await hung.send("t", b"too late", partition=0)
        with pytest.raises(LonghallError):
            await hung.commit()
        with pytest.raises(LonghallError) as refusal:
            await hung.abort()
        assert refusal.value.code is Code.PRODUCER_FENCED

    play(scene)

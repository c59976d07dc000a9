"""A group member: join, rejoin, commit, leave."""

from __future__ import annotations

import asyncio

import pytest

from longhall.client.groups import Committed
from longhall.client.hall import Hall
from longhall.client.member import GroupMember
from longhall.client.producer import Producer
from longhall.client.refusals import Refused
from longhall.errors import Code
from simulation.world import SimulatedWorld
from tests.client.conftest import Play
from tests.client.coordinator import HEARTBEAT, JOIN_GROUP, OFFSET_COMMIT, OFFSET_FETCH, SYNC_GROUP
from tests.client.scripted import DROP, FIND_COORDINATOR, LOSE, ScriptedBroker


async def fill(hall: Hall, world: SimulatedWorld, count: int) -> None:
    producer = Producer(hall, world.clock)
    for number in range(count):
        await producer.send("t", b"%d" % number, partition=number % 2)
    await producer.close()


async def read(member: GroupMember, count: int) -> list[bytes | None]:
    found: list[bytes | None] = []
    while len(found) < count:
        found += [consumed.record.value for consumed in await member.poll()]
    return found


def test_a_group_resumes_at_its_committed_offsets(play: Play) -> None:
    async def scene(broker: ScriptedBroker, hall: Hall, world: SimulatedWorld) -> None:
        await fill(hall, world, 10)
        first = GroupMember(hall, "g", ["t"])
        assert sorted(await read(first, 10), key=str) == [b"%d" % number for number in range(10)]
        assert first.assignment == [("t", 0), ("t", 1)]
        await first.commit()
        await first.leave()
        assert broker.coordinator.left == ["member-1"]
        await fill(hall, world, 2)
        second = GroupMember(hall, "g", ["t"])
        assert sorted(await read(second, 2), key=str) == [b"0", b"1"]
        assert broker.coordinator.committed == {("t", 0): 5, ("t", 1): 5}

    play(scene)


def test_join_retries_after_failures(play: Play) -> None:
    async def scene(broker: ScriptedBroker, hall: Hall, world: SimulatedWorld) -> None:
        await fill(hall, world, 4)
        broker.mishaps = {
            FIND_COORDINATOR: [15, DROP],
            JOIN_GROUP: [16, LOSE, 25, DROP],
            SYNC_GROUP: [27, LOSE, 22, 25],
            OFFSET_FETCH: [14, DROP, 88],
        }
        assert len(await read(GroupMember(hall, "g", ["t"]), 4)) == 4

    play(scene)


@pytest.mark.parametrize("error_code", [27, 25, 22])
def test_a_failed_heartbeat_makes_the_member_rejoin(play: Play, error_code: int) -> None:
    async def scene(broker: ScriptedBroker, hall: Hall, world: SimulatedWorld) -> None:
        await fill(hall, world, 4)
        member = GroupMember(hall, "g", ["t"])
        await read(member, 4)
        await member.commit()
        generation = broker.coordinator.generation
        broker.mishaps = {HEARTBEAT: [0, error_code]}
        await asyncio.sleep(20)
        await member.poll()
        assert broker.coordinator.generation == generation + 1
        assert broker.coordinator.heartbeats >= 2
        await member.leave()
        beats = broker.coordinator.heartbeats
        await asyncio.sleep(20)
        assert broker.coordinator.heartbeats == beats

    play(scene)


def test_a_late_commit_is_refused(play: Play) -> None:
    async def scene(broker: ScriptedBroker, hall: Hall, world: SimulatedWorld) -> None:
        await fill(hall, world, 4)
        member = GroupMember(hall, "g", ["t"])
        await read(member, 4)
        broker.mishaps = {OFFSET_COMMIT: [16, DROP, 22]}
        with pytest.raises(Refused) as refusal:
            await member.commit()
        assert refusal.value.code is Code.ILLEGAL_GENERATION

    play(scene)


def test_offsets_are_reset_by_an_administrator(play: Play) -> None:
    async def scene(broker: ScriptedBroker, hall: Hall, world: SimulatedWorld) -> None:
        await fill(hall, world, 10)
        assert await hall.groups.offsets("g") == {}
        await hall.groups.commit("g", {("t", 0): Committed(3)})
        assert await hall.groups.offsets("g") == {("t", 0): Committed(3)}
        assert await hall.groups.lag("g") == {("t", 0): (Committed(3), 5)}
        assert await hall.groups.reset("g", "t", -2) == {0: 0, 1: 0}
        assert await hall.groups.reset("g", "t", 1_000_000_000_000) == {0: 5, 1: 5}, "no record is that young"

    play(scene)

"""One replica without its leader: what it appends, applies, truncates and recovers, driven frame by frame."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from crc32c import crc32c

from longhall.broker.apply import ReplicaFailed
from longhall.broker.checkpoint import checkpoint
from longhall.broker.events import EpochStarted, TopicCreated, encoder
from longhall.broker.hall import Hall
from longhall.broker.options import HallOptions
from longhall.broker.recovery import Identity, identify
from longhall.broker.replica_recovery import recover_replica
from longhall.cluster.replication.group_replica import GroupRecord, GroupReplica, ReplicaOptions, Role
from longhall.cluster.replication.repair_policy import Failure
from longhall.cluster.rpc.peers import Peers
from longhall.cluster.rpc.wire import Agreed, Beat, Push
from longhall.errors import Code, LonghallError
from longhall.log.background_jobs import BACKGROUND_JOBS
from longhall.log.frames import EVENT, Entry, encode_entry
from longhall.shards.shard import CATALOGUE, SHARD
from simulation.world import SimulatedWorld, Simulation

OPTIONS = HallOptions(shards=1, wal_file_bytes=16 * 1024 * 1024, disk_reserve_bytes=0)
IDENTITY = Identity(hall_id="a" * 32, shards=1, secret="b" * 64, member=True)


class NoCoordinator:
    """A registrar that records everything at once."""

    async def record_in_sync(self, epoch: int, version: int, in_sync: frozenset[int]) -> GroupRecord | None:
        return GroupRecord(version=version + 1, in_sync=in_sync)

    def epoch_claimed(self, epoch: int) -> None:
        """There is no record to read."""

    async def renounce(self, epoch: int) -> None:
        """There is no other node to lead."""


class Owner:
    """The node of the replica: it notes what it is asked for."""

    def __init__(self) -> None:
        self.restarts: list[str] = []
        self.refused_leaders: list[int] = []

    def restart(self, reason: str) -> None:
        self.restarts.append(reason)

    def refetch(self, leader: int, reason: str) -> None:
        raise AssertionError(reason)

    def refuse_leader(self, leader: int, reason: str) -> None:
        self.refused_leaders.append(leader)

    def repair(self, leader: int, failure: Failure) -> None:
        raise failure

    def raise_level(self, level: int) -> None:
        raise AssertionError(level)

    def check_leadership(self) -> None:
        """It has no clients."""


class Life:
    """One start of the replica."""

    def __init__(self, world: SimulatedWorld) -> None:
        identify(world.disk, world.entropy, OPTIONS, IDENTITY)
        self.hall = Hall(world, OPTIONS)
        rejoined = recover_replica(self.hall)
        peers = Peers(world, IDENTITY.hall_id, 1, 1)
        self.owner = Owner()
        options = ReplicaOptions(in_sync_min=1)
        self.group_replica = GroupReplica(self.hall, rejoined, 1, peers, NoCoordinator(), self.owner, options)
        self.follower = self.group_replica.follower
        self.replica = self.group_replica.replica
        self.group_replica.become_follower(max(self.group_replica.epoch, 1), 2)

    def push(self, epoch: int, names: list[str], committed: int = 0) -> None:
        """As a leader would: each entry makes a topic."""
        first = self.replica.index + 1
        entries = [entry_of(self.replica.sequences[0] + 1 + at, epoch, name) for at, name in enumerate(names)]
        blob = b"".join(encode_entry(entry) for entry in entries)
        assert crc32c(blob)
        self.follower.take_push(Push(epoch, first, len(entries), committed, 0, blob))

    def topics(self) -> list[str]:
        return sorted(self.hall.catalogue.topics)

    async def turn(self) -> None:
        for _ in range(4):
            await asyncio.sleep(0)


def entry_of(sequence: int, epoch: int, name: str) -> Entry:
    number = int.from_bytes(name.encode().rjust(4, b"\0"), "big")
    event = TopicCreated(
        name=name, topic_id=name.encode().ljust(16, b"."), partitions=[number], configuration={}, at_ms=0
    )
    return Entry(EVENT, 0, 0, sequence, epoch, bytes((CATALOGUE,)) + encoder.encode(event))


def lives(*plays: Callable[[Life], Coroutine[Any, Any, None]], cut: bool = False) -> None:
    """One life after another on the same disk, each ended by a kill, or by a power cut."""
    simulation = Simulation(1)
    host = simulation.host("node")

    async def whole() -> None:
        for play in plays:
            world = host.boot(BACKGROUND_JOBS)

            async def live(world: SimulatedWorld = world, play: Callable[[Life], Any] = play) -> None:
                await play(Life(world))

            await world.process.start(live())
            host.cut_power() if cut else host.kill()

    simulation.run(whole())
    simulation.close()


def test_what_is_pushed_is_seen_when_it_is_committed() -> None:
    async def play(life: Life) -> None:
        life.push(1, ["a", "b"])
        await life.turn()
        assert life.topics() == []
        assert (life.replica.index, life.replica.applied) == (2, 0)
        synced = life.follower.take_beat(Beat(epoch=1, index=2, committed=1, time_ms=0))
        assert synced == 0  # The disk has not answered yet.
        await life.turn()
        assert life.topics() == ["a"]
        life.push(1, ["c"], committed=2)
        await life.turn()
        assert life.topics() == ["a", "b"]
        await life.hall.commits.durable()
        assert life.follower.take_beat(Beat(epoch=1, index=3, committed=2, time_ms=0)) == 3

    lives(play)


@pytest.mark.parametrize("cut", [False, True])
def test_after_a_restart_only_what_was_noted_as_committed_is_seen(cut: bool) -> None:
    async def first(life: Life) -> None:
        life.push(1, ["a", "b", "c"], committed=2)
        await asyncio.sleep(1.5)  # The note is written now and then.
        await life.hall.commits.durable()

    async def second(life: Life) -> None:
        assert life.topics() == ["a", "b"]
        assert (life.replica.index, life.replica.applied, life.replica.committed) == (3, 2, 2)
        assert life.follower.follow().epochs == [(1, 1)]
        life.follower.take_beat(Beat(epoch=1, index=3, committed=3, time_ms=0))
        await life.turn()
        assert life.topics() == ["a", "b", "c"]

    lives(first, second, cut=cut)


@pytest.mark.parametrize("cut", [False, True])
@pytest.mark.parametrize("checkpoints", [False, True])
def test_what_was_cut_does_not_come_back(cut: bool, checkpoints: bool) -> None:
    async def first(life: Life) -> None:
        life.push(1, ["a", "old-1", "old-2"], committed=1)
        await life.hall.commits.durable()
        if checkpoints:
            await checkpoint(life.hall)
        life.group_replica.become_follower(2, 3)
        life.follower.agreed(Agreed(epoch=2, index=1, committed=1))
        life.push(2, ["new"], committed=1)
        await life.hall.commits.durable()

    async def second(life: Life) -> None:
        assert life.replica.index == 2
        assert life.follower.follow().epochs == [(1, 1), (2, 2)]
        life.group_replica.become_follower(2, 3)
        life.follower.take_beat(Beat(epoch=2, index=2, committed=2, time_ms=0))
        await life.turn()
        assert life.topics() == ["a", "new"]

    lives(first, second, cut=cut)


def test_a_sync_that_began_before_a_cut_is_worth_no_more_than_the_cut() -> None:
    async def play(life: Life) -> None:
        life.push(1, ["a", "b", "c", "d"])
        await life.turn()  # The sync of four entries is under way.
        life.group_replica.become_follower(2, 3)
        assert life.follower.agreed(Agreed(epoch=2, index=1, committed=0)) == 0
        life.push(2, ["e", "f", "g"])
        reached = []
        good = life.group_replica.synced

        def synced(index: int) -> None:
            good(index)
            reached.append(life.group_replica.log.synced)

        setattr(life.group_replica, "synced", synced)  # noqa: B010
        await life.hall.commits.durable()
        assert reached[0] == 1
        assert reached[-1] == 4

    lives(play)


def test_a_leader_that_lacks_what_is_committed_is_not_followed() -> None:
    async def play(life: Life) -> None:
        life.push(1, ["a", "b", "c"], committed=3)
        await life.turn()
        life.group_replica.become_follower(2, 3)
        life.follower.agreed(Agreed(epoch=2, index=2, committed=0))
        await life.turn()
        assert life.owner.refused_leaders == [3]
        assert life.topics() == ["a", "b", "c"]
        assert life.replica.index == 3
        assert life.group_replica.role_of(0) is Role.ABSENT

    lives(play)


def test_a_push_that_does_not_fit_changes_nothing() -> None:
    async def play(life: Life) -> None:
        life.push(1, ["a"])
        wrong = encode_entry(entry_of(9, 1, "z"))
        with pytest.raises(LonghallError):
            life.follower.take_push(Push(1, 2, 1, 0, 0, wrong))
        with pytest.raises(LonghallError):
            life.follower.take_push(Push(1, 5, 1, 0, 0, encode_entry(entry_of(2, 1, "b"))))
        assert life.replica.index == 1
        life.push(1, ["b"])
        assert life.replica.index == 2

    lives(play)


def test_whoever_is_to_lead_applies_all_it_has_and_begins_an_epoch() -> None:
    async def play(life: Life) -> None:
        life.push(1, ["a", "b"], committed=1)
        await life.hall.commits.durable()
        await life.group_replica.become_leader(5, GroupRecord(version=1, in_sync=frozenset({1})))
        assert life.topics() == ["a", "b"]
        assert life.group_replica.role_of(0) is Role.LEADER
        assert life.hall.refusal is None
        assert (life.replica.epoch, life.replica.index) == (5, 2 + len(life.hall.shards))
        assert [shard.epoch for shard in life.hall.shards] == [5, 5]
        with pytest.raises(LonghallError) as caught:
            await life.group_replica.become_leader(5, GroupRecord(version=1, in_sync=frozenset({1})))
        assert caught.value.code is Code.NOT_LEADER

    lives(play)


def test_a_leader_that_hears_of_a_newer_epoch_takes_nothing_more() -> None:
    async def play(life: Life) -> None:
        await life.group_replica.become_leader(5, GroupRecord(version=1, in_sync=frozenset({1})))
        life.group_replica.become_follower(4, 2)
        await life.turn()
        assert life.owner.restarts == []
        life.group_replica.become_follower(6, 2)
        await life.turn()
        assert len(life.owner.restarts) == 1
        assert life.hall.refusal is Code.NOT_LEADER
        shard = life.hall.shards[1]
        before = shard.sequence
        with pytest.raises(LonghallError) as caught:
            shard.append_event(SHARD, encoder.encode(EpochStarted(epoch=9)))
        assert caught.value.code is Code.NOT_LEADER
        assert shard.sequence == before
        assert life.hall.wal.pending_bytes == 0

    lives(play)


def test_a_snapshot_whose_version_has_flipped_is_damaged_and_not_of_a_newer_longhall() -> None:
    async def play(life: Life) -> None:
        life.push(1, ["a"], committed=1)
        await life.hall.commits.durable()
        await life.turn()
        await checkpoint(life.hall)
        disk = life.hall.world.disk
        (name,) = disk.list("shards/0000")
        file = disk.open(f"shards/0000/{name}")
        file.write_at(4, (b"\x10",))
        disk.sync_now(file)
        file.close()

    with pytest.raises(LonghallError) as caught:
        lives(play, play)
    assert caught.value.code is Code.STORAGE_DAMAGED


def test_a_sync_that_fails_during_recovery_blames_no_entry() -> None:
    simulation = Simulation(1)
    host = simulation.host("node")

    async def first(world: SimulatedWorld) -> None:
        life = Life(world)
        life.push(1, ["a"], committed=1)
        await asyncio.sleep(1)

    async def second(world: SimulatedWorld) -> None:
        identify(world.disk, world.entropy, OPTIONS, IDENTITY)
        host.faults.sync_error_chance = 1.0
        with pytest.raises(OSError) as caught:
            recover_replica(Hall(world, OPTIONS))
        assert not isinstance(caught.value, ReplicaFailed)
        host.faults.heal()

    async def third(world: SimulatedWorld) -> None:
        assert Life(world).replica.index == 1  # The copy is as it was.

    async def whole() -> None:
        for play in (first, second, third):
            world = host.boot(BACKGROUND_JOBS)
            await world.process.start(play(world))
            host.kill()

    simulation.run(whole())
    simulation.close()

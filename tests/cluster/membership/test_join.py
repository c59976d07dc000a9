"""What a node settles with the coordinator before it recovers: its number, its hall, and what it takes back."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest

from longhall.broker.recovery import Identity
from longhall.cluster.membership.copy_report import FOLLOWER, HALTED, LEADER, NOTHING, CopyReport
from longhall.cluster.membership.join import (
    Ask,
    adopt_epoch,
    is_older_copy,
    number_of,
    retract_roles,
    share_identity,
    wait_for_number,
)
from longhall.cluster.membership.member_file import MemberFile, read_member_file, write_member_file
from longhall.coordination.coordinator import TreeCoordinator
from longhall.coordination.embedded import EmbeddedStore, EmbeddedTree
from longhall.coordination.ports import NOBODY, Coordinator, MemberDescription, ShardState
from longhall.errors import Code, LonghallError
from longhall.world.real.disk import RealDisk
from longhall.world.real.entropy import RealEntropy


async def coordinators(directory: Path, count: int) -> list[Coordinator]:
    """Several sessions with one tree."""
    store = EmbeddedStore(RealDisk(str(directory)))
    made: list[Coordinator] = []
    for _ in range(count):
        coordinator = TreeCoordinator(EmbeddedTree(store))
        await coordinator.start()
        made.append(coordinator)
    return made


def test_a_card_is_kept(tmp_path: Path) -> None:
    disk = RealDisk(str(tmp_path))
    member_file = read_member_file(disk, RealEntropy())
    assert (member_file.node, member_file.clean, member_file.life) == (0, True, 0)
    member_file.node, member_file.clean = 3, False
    write_member_file(disk, member_file)
    assert read_member_file(disk, RealEntropy()) == member_file
    (tmp_path / "member.json").write_text("{")
    with pytest.raises(LonghallError) as refused:
        read_member_file(disk, RealEntropy())
    assert refused.value.code is Code.STORAGE_DAMAGED
    disk.close()


async def test_numbers_are_given_once_and_kept(tmp_path: Path) -> None:
    (coordinator,) = await coordinators(tmp_path / "tree", 1)
    member_file = MemberFile(directory="d")
    assert await number_of(coordinator, member_file, 0) == 1
    assert await number_of(coordinator, member_file, 0) == 2
    assert await number_of(coordinator, member_file, 7) == 7
    member_file.node = 5
    assert await number_of(coordinator, member_file, 0) == 5
    with pytest.raises(LonghallError):
        await number_of(coordinator, member_file, 7)


async def test_a_number_is_taken_over_when_the_session_of_its_owner_ends(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="longhall.join")
    killed, new = await coordinators(tmp_path / "tree", 2)
    await killed.register(MemberDescription(node_id=1, directory="lost"))
    await wait_for_number(new, 1, "lost", 0, silence)  # The same directory is the same node: nobody to wait for.
    await wait_for_number(new, 2, "new", 0, silence)
    assert caplog.messages == []
    starts = asyncio.ensure_future(wait_for_number(new, 1, "new", 600_000, silence))
    for _ in range(1000):
        await asyncio.sleep(0 if caplog.messages else 0.01)
    assert not starts.done()
    await killed.close()
    await starts
    assert caplog.messages == ["waiting for the session of the node that had this number to end"]


async def test_a_number_whose_owner_lives_is_not_taken_over(tmp_path: Path) -> None:
    alive, new = await coordinators(tmp_path / "tree", 2)
    await alive.register(MemberDescription(node_id=1, directory="kept"))
    with pytest.raises(LonghallError) as refused:
        await wait_for_number(new, 1, "new", 1, silence)
    assert "--node-id" in str(refused.value)
    assert 1 in await new.members()


async def test_whoever_comes_first_brings_the_hall(tmp_path: Path) -> None:
    one, two = await coordinators(tmp_path / "tree", 2)
    first = await share_identity(one, 1, Identity(hall_id="a" * 32, shards=8, secret="b" * 64))
    second = await share_identity(two, 2, Identity(hall_id="c" * 32, shards=3, secret="d" * 64))
    assert first == second
    assert (second.hall_id, second.shards, second.secret, second.member) == ("a" * 32, 8, "b" * 64, True)
    state = await one.shard(0)
    assert state is not None
    assert (state.leader, state.replicas, state.in_sync) == (NOBODY, (1,), (1,))


async def silence(node: int) -> None:
    """Nobody answers."""


def saying(role: str | None) -> Ask:
    """Everybody answers that this is its role; None for no answer."""

    async def ask(node: int) -> CopyReport | None:
        return None if role is None else CopyReport(node=node, role=role)

    return ask


async def _recorded(coordinator: Coordinator, leader: int, in_sync: tuple[int, ...]) -> None:
    await coordinator.change_shard(None, ShardState(shard=0, leader=leader, epoch=4, replicas=(1, 2), in_sync=in_sync))


async def test_a_node_that_was_killed_is_not_in_sync_while_others_are(tmp_path: Path) -> None:
    one, two = await coordinators(tmp_path / "tree", 2)
    await _recorded(one, 1, (1, 2))
    await two.register(MemberDescription(node_id=2, directory="two"))
    state = await retract_roles(one, 1, clean=False, lost="", ask=saying(LEADER))
    assert (state.leader, state.in_sync, state.epoch) == (NOBODY, (2,), 4)


@pytest.mark.parametrize("role", [None, HALTED, NOTHING])
async def test_nodes_that_went_down_together_stay_in_sync(tmp_path: Path, role: str | None) -> None:
    """Sessions wait_for_number their nodes: the other one is registered, and does not say that it leads or follows."""
    one, two = await coordinators(tmp_path / "tree", 2)
    await _recorded(one, 1, (1, 2))
    await two.register(MemberDescription(node_id=2, directory="two"))
    state = await retract_roles(one, 1, clean=False, lost="", ask=saying(role))
    assert (state.leader, state.in_sync) == (NOBODY, (1, 2))


async def test_an_older_copy_of_a_directory_is_recognised(tmp_path: Path) -> None:
    (one,) = await coordinators(tmp_path / "tree", 1)
    member_file = MemberFile(node=1, directory="d", life=3)
    assert not await is_older_copy(one, member_file)
    assert not await is_older_copy(one, MemberFile(node=1, directory="d", life=4))
    assert await is_older_copy(one, member_file)
    assert await is_older_copy(one, MemberFile(node=1, directory="d", life=4))  # Started twice from the same copy.
    assert not await is_older_copy(one, MemberFile(node=1, directory="another", life=1))
    assert not await is_older_copy(one, MemberFile(node=2, directory="d", life=1))


async def test_a_copy_of_a_directory_whose_node_lives_is_refused(tmp_path: Path) -> None:
    alive, copy = await coordinators(tmp_path / "tree", 2)
    await alive.register(MemberDescription(node_id=1, directory="same", addresses={"peer": "127.0.0.1:7092"}))
    with pytest.raises(LonghallError) as refused:
        await wait_for_number(copy, 1, "same", 0, saying(FOLLOWER))
    assert "127.0.0.1:7092" in str(refused.value)


async def test_the_epochs_of_a_lone_node_go_on_in_its_cluster(tmp_path: Path) -> None:
    (one,) = await coordinators(tmp_path / "tree", 1)
    await one.change_shard(None, ShardState(shard=0, replicas=(1,), in_sync=(1,)))
    assert (await adopt_epoch(one, 1, 17)).epoch == 17
    assert (await adopt_epoch(one, 1, 12)).epoch == 17
    with pytest.raises(LonghallError):
        await adopt_epoch(one, 2, 18)  # Somebody else's log is the cluster's.


async def test_one_that_was_stopped_cleanly_is(tmp_path: Path) -> None:
    one, two = await coordinators(tmp_path / "tree", 2)
    await _recorded(one, 1, (1, 2))
    await two.register(MemberDescription(node_id=2, directory="two"))
    state = await retract_roles(one, 1, clean=True, lost="", ask=saying(LEADER))
    assert (state.leader, state.in_sync) == (NOBODY, (1, 2))
    assert await retract_roles(one, 1, clean=True, lost="", ask=saying(LEADER)) == state  # Nothing is left to say.


async def test_the_last_one_standing_keeps_its_place(tmp_path: Path) -> None:
    (one,) = await coordinators(tmp_path / "tree", 1)
    await _recorded(one, 1, (1, 2))
    assert (await retract_roles(one, 1, clean=False, lost="", ask=silence)).in_sync == (1, 2)


async def test_an_empty_directory_has_nothing(tmp_path: Path) -> None:
    (one,) = await coordinators(tmp_path / "tree", 1)
    await _recorded(one, 2, (1, 2))
    assert (await retract_roles(one, 1, clean=True, lost="is empty", ask=silence)).in_sync == (2,)
    with pytest.raises(LonghallError) as refused:
        await retract_roles(one, 2, clean=True, lost="is empty", ask=silence)
    assert refused.value.code is Code.STORAGE_DAMAGED

"""The feature level: raised only when every known node has it, and a node that lacks it is not let in."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from longhall.broker.feature_gates import NEWEST, OLDEST, WORDS
from longhall.broker.recovery import FORMAT_MAX, Identity, read_identity, write_identity
from longhall.cluster.membership.candidates import Vote, best_of, most_complete
from longhall.cluster.membership.feature_level import outlook
from longhall.cluster.membership.join import check_level, share_identity
from longhall.cluster.rpc.wire import (
    AGREED,
    BEAT,
    GREETING,
    WELCOME,
    Agreed,
    Beat,
    Greeting,
    Welcome,
    encode,
    said_level,
)
from longhall.coordination.ports import MemberDescription
from longhall.errors import Code, LonghallError
from longhall.node.settings import Settings
from longhall.world.real.disk import RealDisk
from tests.cluster.membership.test_join import coordinators


def members(**newest: int) -> dict[int, MemberDescription]:
    return {
        int(name[1:]): MemberDescription(node_id=int(name[1:]), directory=name, feature_level_max=level)
        for name, level in newest.items()
    }


def test_every_level_has_words_and_a_format() -> None:
    assert sorted(WORDS) == list(range(OLDEST, NEWEST + 1))
    assert FORMAT_MAX == NEWEST
    assert Settings().feature_level_max == NEWEST


def test_the_level_can_be_what_every_node_knows() -> None:
    assert outlook(0, members(n1=2, n2=2, n3=2), (1, 2, 3)).possible == 2
    found = outlook(0, members(n1=2, n2=0, n3=2), (1, 2, 3))  # The first version said nothing of levels.
    assert (found.level, found.possible, found.obstacles) == (1, 1, ["node 2 knows up to level 1"])
    found = outlook(1, members(n1=2, n2=2, n3=2, n4=1), (1, 2, 3))  # Also a node that keeps nothing counts.
    assert (found.possible, found.obstacles) == (1, ["node 4 knows up to level 1"])


def test_of_a_node_that_is_away_nobody_knows() -> None:
    found = outlook(1, members(n1=2, n2=2), (1, 2, 3))
    assert found.possible == 1
    assert found.obstacles == ["node 3 is away, and nobody knows what it knows"]


def test_a_level_never_goes_down() -> None:
    assert outlook(2, members(n1=1, n2=2), (1, 2)).possible == 2
    assert outlook(2, {}, ()).possible == 2


async def test_the_first_node_brings_its_level_and_an_older_one_is_refused(tmp_path: Path) -> None:
    one, two = await coordinators(tmp_path / "tree", 2)
    identity = Identity(hall_id="a" * 32, shards=8, secret="b" * 64)
    assert await check_level(one, 1) == 1
    await share_identity(one, 1, identity, 2)
    assert await check_level(two, 2) == 2
    with pytest.raises(LonghallError) as refused:
        await check_level(two, 1)
    assert refused.value.code is Code.UNSUPPORTED_VERSION
    assert str(refused.value) == (
        "the cluster is at feature level 2, and this version knows up to 1: start the newer version on this node"
    )
    await share_identity(two, 2, identity, 1)  # What is there stays.
    assert await check_level(two, 2) == 2


async def test_a_cluster_of_an_earlier_version_has_level_1(tmp_path: Path) -> None:
    one, two = await coordinators(tmp_path / "tree", 2)
    identity = Identity(hall_id="a" * 32, shards=8, secret="b" * 64)
    await share_identity(one, 1, identity)
    assert (await one.feature_level()).level == 0
    await share_identity(two, 2, identity, 2)
    assert await check_level(two, 2) == 1


def test_a_directory_says_which_level_it_may_hold(tmp_path: Path) -> None:
    disk = RealDisk(str(tmp_path))
    write_identity(disk, Identity(hall_id="a" * 32, shards=8, format=2, member=True))
    found = read_identity(disk)
    assert found is not None
    assert found.format == 2
    with pytest.raises(LonghallError) as refused:
        read_identity(disk, format_max=1)
    assert refused.value.code is Code.UNSUPPORTED_VERSION
    assert "format 2 and this version knows up to 1" in str(refused.value)
    disk.close()


def test_below_level_2_the_frames_are_those_of_the_first_version() -> None:
    """Written down from that version."""
    greeting = Greeting(version=1, hall="h", node=2, incarnation=3, purpose="follow")
    level = said_level(1)
    agreed = Agreed(epoch=4, index=5, committed=6, level=level)
    beat = Beat(epoch=4, index=5, committed=6, time_ms=7, level=level)
    names = {
        "greeting": ["version", "hall", "node", "incarnation", "purpose"],
        "agreed": ["epoch", "index", "committed"],
    }
    assert list(_fields(encode(GREETING, greeting))) == names["greeting"]
    assert list(_fields(encode(WELCOME, Welcome(node=2, incarnation=3)))) == ["version", "node", "incarnation"]
    assert list(_fields(encode(AGREED, agreed))) == names["agreed"]
    assert list(_fields(encode(BEAT, beat))) == [*names["agreed"], "time_ms"]
    assert _fields(encode(BEAT, msgspec.structs.replace(beat, level=said_level(2))))["level"] == 2


def _fields(frame: bytes) -> dict[str, object]:
    found: dict[str, object] = msgspec.msgpack.decode(frame[5:])
    return found


def test_of_those_who_stand_the_most_complete_leads() -> None:
    assert best_of([3, 1, 2], {1: Vote(epoch=4, index=9), 2: Vote(epoch=5, index=7)}) == 2
    assert best_of([3, 1, 2], {1: Vote(epoch=5, index=9), 2: Vote(epoch=5, index=7)}) == 1
    assert best_of([3, 1, 2], {node: Vote(epoch=5, index=9) for node in (1, 2, 3)}) == 3
    assert best_of([3, 1], {}) == 3


async def test_who_does_not_answer_is_asked_again_and_then_passed_over() -> None:
    asked: list[int] = []

    async def ask(node: int, epoch: int) -> Vote:
        asked.append(node)
        if node == 2 or (node == 3 and asked.count(3) == 1):
            raise ConnectionRefusedError
        return Vote(epoch=epoch, index=node)

    assert await most_complete(ask, [1, 2, 3], 7, 3) == 3
    assert asked == [1, 2, 3, 2, 3]  # One of three is too few: what two have it might lack.


async def test_a_candidate_that_is_silent_is_waited_for_until_it_is_no_candidate() -> None:
    async def ask(node: int, epoch: int) -> Vote:
        if node != 2:
            raise TimeoutError
        return Vote(epoch=epoch, index=1)

    assert await most_complete(ask, [1, 2], 7, 3) is None
    assert await most_complete(ask, [2], 7, 3) == 2

"""Share groups: the table of `topics.share_groups`, row by row."""

from __future__ import annotations

import pytest

from longhall.errors import Code, LonghallError
from longhall.topics import share_groups
from longhall.topics.share_groups import EMPTY_MS, Assignment, ShareGroups, ShareHeartbeat
from longhall.topics.share_settings import ShareSettings

SETTINGS = ShareSettings({"share.session.timeout.ms": "10000", "share.heartbeat.interval.ms": "1000"})
ORDERS = bytes(15) + b"1"


class Cluster:
    """Topics with partitions, and share groups over them."""

    def __init__(self) -> None:
        self.groups = ShareGroups()
        self.partitions = {"orders": 2}
        self.now_ms = 1000

    def assign(self, topics: tuple[str, ...]) -> Assignment:
        return tuple((ORDERS, name, self.partitions[name]) for name in topics if name in self.partitions)

    def beat(self, member: str, epoch: int, *topics: str) -> tuple[int, Assignment | None]:
        heartbeat = ShareHeartbeat("g", member, epoch, topics or None)
        return self.groups.heartbeat(heartbeat, SETTINGS, self.assign, self.now_ms)

    def refused(self, member: str, epoch: int, *topics: str) -> Code:
        with pytest.raises(LonghallError) as refusal:
            self.beat(member, epoch, *topics)
        return refusal.value.code


def test_a_member_joins_stays_and_leaves() -> None:
    cluster = Cluster()
    assert cluster.beat("a", 0, "orders") == (1, ((ORDERS, "orders", 2),))
    assert cluster.beat("a", 1) == (1, None)
    assert cluster.beat("a", -1) == (-1, None)
    assert cluster.refused("a", 1) is Code.UNKNOWN_MEMBER
    found = cluster.groups.find("g")
    assert found is not None
    assert found.state == share_groups.EMPTY


def test_every_member_gets_every_partition_and_hears_of_new_ones() -> None:
    cluster = Cluster()
    cluster.beat("a", 0, "orders")
    assert cluster.beat("b", 0, "orders") == (2, ((ORDERS, "orders", 2),))
    assert cluster.beat("a", 1) == (2, None)
    cluster.partitions["orders"] = 3
    assert cluster.beat("a", 2) == (3, ((ORDERS, "orders", 3),))
    assert cluster.beat("b", 2) == (4, ((ORDERS, "orders", 3),))


def test_epochs_fence_but_a_lost_reply_does_not() -> None:
    cluster = Cluster()
    cluster.beat("a", 0, "orders")
    cluster.beat("b", 0, "orders")
    assert cluster.beat("a", 1)[0] == 2
    assert cluster.beat("a", 1)[0] == 2
    assert cluster.refused("a", 7) is Code.FENCED_MEMBER_EPOCH
    assert cluster.beat("a", 0, "orders")[0] == 3


def test_a_silent_member_is_removed_and_its_group_forgotten() -> None:
    cluster = Cluster()
    cluster.beat("a", 0, "orders")
    cluster.groups.tick(cluster.now_ms + 9_999)
    assert cluster.beat("a", 1) == (1, None)
    cluster.now_ms += 20_000
    cluster.groups.tick(cluster.now_ms)
    assert cluster.refused("a", 1) is Code.UNKNOWN_MEMBER
    cluster.groups.tick(cluster.now_ms + EMPTY_MS)
    assert cluster.groups.find("g") is None


def test_what_a_heartbeat_must_have() -> None:
    cluster = Cluster()
    assert cluster.refused("", 0, "orders") is Code.INVALID_REQUEST
    assert cluster.refused("a", -2, "orders") is Code.INVALID_REQUEST
    assert cluster.refused("a", 0) is Code.INVALID_REQUEST
    assert cluster.refused("a", -1) is Code.UNKNOWN_MEMBER


def test_a_group_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(share_groups, "MEMBERS_MAX", 1)
    cluster = Cluster()
    cluster.beat("a", 0, "orders")
    assert cluster.refused("b", 0, "orders") is Code.GROUP_FULL

"""How a member and its followers do, for `cluster status`."""

from __future__ import annotations

from collections.abc import Container
from typing import TYPE_CHECKING

from longhall.cluster.replication.roles import FollowerStatus, FullSyncProgress, ReplicaStatus
from longhall.names import CATALOGUE_SHARD
from longhall.shards.commit_tracker import CommitTracker

if TYPE_CHECKING:
    from longhall.cluster.replication.group_replica import GroupReplica


def status_of(
    member: GroupReplica, connected: Container[int], fetching: FullSyncProgress | None, now_ms: int
) -> ReplicaStatus:
    """How things stand with a member; what only a leader knows is empty elsewhere."""
    leading = member.leading
    return ReplicaStatus(
        node=member.node,
        role=member.role_of(CATALOGUE_SHARD),
        leader=member.leader_of(CATALOGUE_SHARD),
        epoch=member.epoch,
        index=member.index,
        committed=member.replica.committed,
        applied=member.replica.applied,
        in_sync=sorted(leading.in_sync) if leading is not None else [],
        followers=followers_of(leading, connected, member.index, now_ms) if leading is not None else [],
        fetching=fetching if leading is not None else None,
        divergent=sorted({*member.exclusion.reasons, *member.comparison.uncommitted}) if leading is not None else [],
        compared=member.comparison.compared,
    )


def followers_of(leading: CommitTracker, connected: Container[int], index: int, now_ms: int) -> list[FollowerStatus]:
    """Each of them, when the log of the leader ends at `index`."""
    followers: list[FollowerStatus] = []
    for node, follower in sorted(leading.followers.items()):
        caught_up_ms = follower.caught_up_ms
        followers.append(
            FollowerStatus(
                node=node,
                connected=node in connected,
                in_sync=node in leading.in_sync,
                index=follower.synced,
                lag_entries=leading.lag(node, index),
                lag_ms=now_ms - caught_up_ms if caught_up_ms >= 0 and leading.lag(node, index) else 0,
            )
        )
    return followers

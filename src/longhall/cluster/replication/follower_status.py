"""The status of a replica and of its followers, for `cluster status`."""

from __future__ import annotations

from collections.abc import Container
from typing import TYPE_CHECKING

from longhall.cluster.replication.roles import FollowerStatus, ReplicaStatus
from longhall.names import CATALOGUE_SHARD
from longhall.shards.commit_tracker import CommitTracker

if TYPE_CHECKING:
    from longhall.cluster.replication.follower_streams import FollowerStreams
    from longhall.cluster.replication.group_replica import GroupReplica


def status_of(group_replica: GroupReplica, streams: FollowerStreams, now_ms: int) -> ReplicaStatus:
    """The status of a replica. Fields that only a leader knows are empty at a follower."""
    leading = group_replica.leading
    divergent = {*streams.quarantine.reasons, *group_replica.comparison.uncommitted}
    return ReplicaStatus(
        node=group_replica.node,
        role=group_replica.role_of(CATALOGUE_SHARD),
        leader=group_replica.leader_of(CATALOGUE_SHARD),
        epoch=group_replica.epoch,
        index=group_replica.index,
        committed=group_replica.replica.committed,
        applied=group_replica.replica.applied,
        in_sync=sorted(leading.in_sync) if leading is not None else [],
        followers=followers_of(leading, streams.by_node, group_replica.index, now_ms) if leading is not None else [],
        fetching=streams.full_sync.fetching() if leading is not None else None,
        divergent=sorted(divergent) if leading is not None else [],
        compared=group_replica.comparison.compared,
    )


def followers_of(leading: CommitTracker, connected: Container[int], index: int, now_ms: int) -> list[FollowerStatus]:
    """The status of each follower, if the log of the leader ends at `index`."""
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

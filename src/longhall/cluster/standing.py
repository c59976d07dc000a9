"""How the followers of a leader do, for `cluster status`."""

from __future__ import annotations

from collections.abc import Container

from longhall.cluster.roles import FollowerStatus
from longhall.shards.leading import Leading


def followers_of(leading: Leading, connected: Container[int], index: int, now_ms: int) -> list[FollowerStatus]:
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

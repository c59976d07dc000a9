"""What a leader appends and commits, seen from outside: nothing here changes what the leader does."""

from __future__ import annotations

from collections.abc import Callable

from longhall.cluster.replication.group_replica import GroupReplica
from longhall.cluster.replication.push_batches import PushBatch


def watch_leader(
    group_replica: GroupReplica, on_append: Callable[[PushBatch], None], on_commit: Callable[[int, int], None]
) -> None:
    """Call `on_append` with every batch that the replica appends while it leads, and `on_commit` with the epoch and the
    index before any client hears that it is committed.
    """
    releases = group_replica.leader._releases
    add, commit = releases.add, releases.commit

    def watched_add(batch: PushBatch) -> None:
        add(batch)
        on_append(batch)

    def watched_commit(index: int) -> None:
        assert group_replica.leading is not None
        on_commit(group_replica.leading.epoch, index)
        commit(index)

    setattr(releases, "add", watched_add)  # noqa: B010
    setattr(releases, "commit", watched_commit)  # noqa: B010

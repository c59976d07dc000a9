"""Replica notes: the leader notes the replicas of the group in the log itself.

A node may become in sync only when a note that names it is committed: by then every replica in sync has the note on its
disk. So a replica that was in sync at any time knows every node that may have led after it, and the record of a
coordinator that lost its data can be rebuilt from the logs (`record_proof`).
"""

from __future__ import annotations

from typing import final

from longhall.broker.events import ReplicasNoted
from longhall.broker.feature_gates import REPLICAS_LEVEL
from longhall.broker.hall import Hall
from longhall.names import CATALOGUE_SHARD
from longhall.shards.commit_tracker import CommitTracker
from longhall.shards.replica import Replica
from longhall.shards.shard import SHARD


@final
class ReplicaNotes:
    """The notes of one leader in one epoch."""

    def __init__(self, hall: Hall, replica: Replica, leading: CommitTracker) -> None:
        self._hall = hall
        self._replica = replica
        self._leading = leading
        self._written: frozenset[int] = frozenset()
        self._index = 0  # Of the last note.
        if hall.feature_level >= REPLICAS_LEVEL and leading.replicas is not None:
            leading.noted = frozenset()

    def write(self) -> None:
        """Note the replicas if the log does not have them yet. Call it whenever the record may have changed."""
        replicas = self._leading.replicas
        if self._hall.feature_level < REPLICAS_LEVEL or replicas is None or replicas == self._written:
            return
        self._written = self._replica.replicas = replicas
        self._leading.noted = frozenset()  # Until the last note is committed no further node becomes in sync.
        self._hall.append_event(self._hall.shards[CATALOGUE_SHARD], SHARD, ReplicasNoted(replicas=sorted(replicas)))
        self._index = self._replica.index

    def committed(self) -> None:
        """The commit position moved."""
        if self._index and self._replica.committed >= self._index:
            self._leading.noted = self._written

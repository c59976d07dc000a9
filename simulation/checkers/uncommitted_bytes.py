"""The oracle of uncommitted bytes: at a leader and at its followers they exceed the bound by at most SLACK_BYTES.

It counts for itself: what a leader appends, from its batches, until the leader calls it committed.
"""

from __future__ import annotations

from collections import deque
from typing import Final, final

from longhall.cluster.replication.group_replica import GroupReplica
from longhall.cluster.replication.push_batches import PUSH_BATCH_BYTES, PushBatch
from simulation.checkers.leaders import watch_leader
from simulation.checkers.violation import demand

SLACK_BYTES: Final = PUSH_BATCH_BYTES + 200_000  # What one turn of the loop appends before anybody counts it.


@final
class UncommittedBytesOracle:
    """Counts uncommitted bytes at every watched replica; `check` compares them with the bound."""

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.most = 0  # The most uncommitted bytes that any leader had.
        self._followed: list[GroupReplica] = []

    def watch(self, member: GroupReplica) -> None:
        """Watch this replica too."""
        self._followed.append(member)
        waiting: deque[tuple[int, int]] = deque()
        total = 0

        def on_append(batch: PushBatch) -> None:
            nonlocal total
            waiting.append((batch.last, batch.size_bytes))
            total += batch.size_bytes
            self.most = max(self.most, total)

        def on_commit(epoch: int, index: int) -> None:
            nonlocal total
            while waiting and waiting[0][0] <= index:
                total -= waiting.popleft()[1]

        watch_leader(member, on_append, on_commit)

    def check(self) -> None:
        """Check all watched replicas."""
        most = self.bytes_max + SLACK_BYTES
        demand(self.most <= most, f"{self.most} bytes were uncommitted at a leader, the bound is {most}")
        for member in self._followed:
            pending = member.replica.pending_bytes
            demand(pending <= most, f"{pending} bytes are uncommitted at node {member.node}, the bound is {most}")

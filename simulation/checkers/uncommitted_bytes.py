"""The oracle of what waits for its commit: at a leader and at its followers it never exceeds the bound by much.

It counts for itself: what a leader appends, from its bundles, until the leader calls it committed.
"""

from __future__ import annotations

from collections import deque
from typing import Final, final

from longhall.cluster.replication.group_replica import GroupReplica
from longhall.cluster.replication.push_batches import BUNDLE_BYTES, PushBatch
from simulation.checkers.violation import demand

SLACK_BYTES: Final = BUNDLE_BYTES + 200_000  # What one turn of the loop appends before anybody counts it.


@final
class UncommittedBytesOracle:
    """See the module."""

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.most = 0  # That ever waited at a leader.
        self._followed: list[GroupReplica] = []

    def watch(self, member: GroupReplica) -> None:
        """From now on, this member too."""
        self._followed.append(member)
        waiting: deque[tuple[int, int]] = deque()
        total = 0
        appended, committed = member.on_bundle, member.on_committed

        def on_bundle(bundle: PushBatch) -> None:
            nonlocal total
            appended(bundle)
            waiting.append((bundle.last, bundle.size_bytes))
            total += bundle.size_bytes
            self.most = max(self.most, total)

        def on_committed(epoch: int, index: int) -> None:
            nonlocal total
            committed(epoch, index)
            while waiting and waiting[0][0] <= index:
                total -= waiting.popleft()[1]

        member.on_bundle = on_bundle
        member.on_committed = on_committed

    def check(self) -> None:
        """Look at everybody."""
        most = self.bytes_max + SLACK_BYTES
        demand(self.most <= most, f"{self.most} bytes waited for their commit at a leader, and {most} may")
        for member in self._followed:
            pending = member.replica.pending_bytes
            demand(pending <= most, f"{pending} bytes wait for their commit at node {member.node}, and {most} may")

"""The commit index of a leader, and the replicas that count for it.

    in_sync     the set recorded at the coordinator: the next leader is one of these
    replicas    the nodes that may be in sync; None while it is unknown, and then every node may
    noted       the replicas that a committed entry of the log names, so that every in-sync replica knows them; None
                while the log does not note them, and then every node may become in sync
    asked       the set that the leader has asked the coordinator to record, until it knows the outcome
    committed   the last index that every node in `in_sync` and in `asked` has synced
    quorum      the last index that more than half of `in_sync`, and of `asked`, have synced: entries up to it survive
                the loss of one of three, provided that the most complete of the others leads next

While a change is in progress the coordinator may have recorded either set, so both count: a joining follower holds the
commit back before the request is sent, a leaving one until the answer arrives. Without the coordinator nothing changes,
and the leader continues as long as every follower answers.

A follower is caught up as of a moment if it has synced everything that was in the leader's log at that moment. Time is
an argument.
"""

from __future__ import annotations

from typing import final


@final
class Follower:
    """Another replica, in sync or not."""

    def __init__(self, now_ms: int) -> None:
        self.synced = 0
        self.caught_up_ms = now_ms
        # The end of the log at `mark_ms`, which the follower has not acknowledged since; -1 if it has.
        self.mark_index = -1
        self.mark_ms = now_ms


@final
class CommitTracker:
    """The commit index and the in-sync set of one leader in one epoch. `committed` and `quorum` never decrease."""

    def __init__(
        self, node: int, epoch: int, in_sync: frozenset[int], version: int, index: int, committed: int, now_ms: int
    ) -> None:
        assert node in in_sync
        self.node = node
        self.epoch = epoch
        self.in_sync = in_sync
        # Version of the record of `in_sync`: every change has a higher one, and is a compare-and-set on the last.
        self.version = version
        self.asked: frozenset[int] | None = None
        self.replicas: frozenset[int] | None = None
        self.noted: frozenset[int] | None = None
        # The epoch in which an operator made a replica leader that may lack committed entries; 0 for none.
        self.unclean_epoch = 0
        # A new leader does not know how much of its log was committed before, only that it has all of that: `index` is
        # the end of its log when its epoch began.
        self.begun_at = index
        self.committed = committed
        self.quorum = committed
        self.synced = 0
        self.followers: dict[int, Follower] = {member: Follower(now_ms) for member in sorted(in_sync) if member != node}

    def synced_here(self, index: int) -> None:
        """The leader's own disk has everything up to `index`."""
        self.synced = max(self.synced, index)
        self._advance()

    def met(self, node: int, index: int, now_ms: int) -> None:
        """A follower connected (again) and agrees with this log up to `index`, all of it synced there."""
        follower = self.followers.get(node)
        if follower is None:
            follower = self.followers[node] = Follower(now_ms)
            follower.caught_up_ms = -1  # Not caught up yet.
        follower.synced = index
        follower.mark_index = -1
        self._advance()

    def answered(self, node: int, index: int) -> None:
        """A follower has synced everything up to `index`, in this epoch."""
        follower = self.followers[node]
        follower.synced = max(follower.synced, index)
        if follower.mark_index >= 0 and follower.synced >= follower.mark_index:
            follower.caught_up_ms = follower.mark_ms
            follower.mark_index = -1
        self._advance()

    def mark(self, index: int, now_ms: int) -> None:
        """Mark the end of the log as `index`: a follower that acknowledges it later is caught up as of now. Call it
        regularly, and request an answer from every follower.
        """
        for follower in self.followers.values():
            if follower.mark_index < 0:
                follower.mark_index = index
                follower.mark_ms = now_ms

    def wish(self, lag_ms_max: int, now_ms: int) -> frozenset[int] | None:
        """The in-sync set to ask for next; None if it is right. A set already asked for comes first."""
        if self.asked is not None:
            return self.asked
        wanted = set(self.in_sync)
        for node, follower in self.followers.items():
            late = follower.caught_up_ms < 0 or now_ms - follower.caught_up_ms > lag_ms_max
            if late or not self.may_follow(node):
                wanted.discard(node)
            elif follower.synced >= max(self.committed, self.begun_at) and self._is_noted(node):
                wanted.add(node)
        return frozenset(wanted) if wanted != self.in_sync else None

    def may_follow(self, node: int) -> bool:
        """True if this node is one of the replicas."""
        return self.replicas is None or node in self.replicas

    def _is_noted(self, node: int) -> bool:
        return self.noted is None or node in self.noted or node in self.in_sync

    def give_up(self, node: int) -> None:
        """Treat this follower as gone: it is removed from the in-sync set without waiting for its lag."""
        follower = self.followers.get(node)
        if follower is not None:
            follower.caught_up_ms = -1
            follower.mark_index = -1

    def ask(self, in_sync: frozenset[int]) -> None:
        """Note that the coordinator is about to be asked to record this set."""
        assert self.node in in_sync
        assert self.asked in (None, in_sync)
        self.asked = in_sync

    def recorded(self, version: int, in_sync: frozenset[int], replicas: frozenset[int] | None = None) -> None:
        """Take over a record of the coordinator. A newer one decides an open request, which was conditional on the old
        one: either it is this record, or it has failed for good.
        """
        if version > self.version:
            self.version = version
            self.in_sync = in_sync | {self.node}
            self.replicas = replicas
            self.asked = None
            for node in list(self.followers):
                if node not in self.in_sync and not self.may_follow(node):
                    del self.followers[node]
            self._advance()

    def lag(self, node: int, index: int) -> int:
        """How many entries a follower has not acknowledged."""
        return max(index - self.followers[node].synced, 0)

    def _advance(self) -> None:
        if self.synced <= self.begun_at:
            return  # Entries of an epoch that a restart of this node could forget are not committed.
        reached = self.synced
        counted = self.in_sync if self.asked is None else self.in_sync | self.asked
        for node in counted:
            if node != self.node:
                follower = self.followers.get(node)
                reached = min(reached, follower.synced if follower is not None else 0)
        self.committed = max(self.committed, reached)
        most = self._synced_by_majority(self.in_sync)
        if self.asked is not None:
            most = min(most, self._synced_by_majority(self.asked))
        self.quorum = max(self.quorum, self.committed, most)

    def _synced_by_majority(self, nodes: frozenset[int]) -> int:
        kept: list[int] = []
        for node in nodes:
            if node == self.node:
                kept.append(self.synced)
            else:
                follower = self.followers.get(node)
                kept.append(follower.synced if follower is not None else 0)
        kept.sort(reverse=True)
        return kept[len(kept) // 2]

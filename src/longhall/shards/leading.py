"""How far a leader's log is committed, and who counts for that.

    in_sync     what the coordinator has recorded: from these, and no others, the next leader is chosen
    replicas    who may be among them; None while nobody said, and then everybody may
    noted       the replicas that a committed entry of the log names, so that whoever is in sync knows of them; None
                while the log does not note them, and then everybody may become in sync
    asked       the set that the leader has asked the coordinator to record, until it knows what became of that
    committed   the last index that everybody in `in_sync` and in `asked` has synced
    quorum      the last index that more than half of `in_sync`, and of `asked`, have synced: what that many have is
                still there when one of three is lost, provided that the most complete of the rest leads next

While a change is under way the coordinator may have recorded either set, so both count: a follower that is to join
holds the commit back from before the question is asked, one that is to leave until the answer is there. Without the
coordinator nothing changes, and the leader goes on as long as everybody answers.

A follower is caught up at some moment if it has since synced all that was in the leader's log at that moment. Time
comes as an argument.
"""

from __future__ import annotations

from typing import final


@final
class Follower:
    """One of the others, in sync or not."""

    def __init__(self, now_ms: int) -> None:
        self.synced = 0
        self.caught_up_ms = now_ms
        self.mark_index = -1  # What the log had at `mark_ms`; the follower has not answered that much since.
        self.mark_ms = now_ms


@final
class Leading:
    """See the module. Nodes are numbers; the leader is one of them."""

    def __init__(
        self, node: int, epoch: int, in_sync: frozenset[int], version: int, index: int, committed: int, now_ms: int
    ) -> None:
        assert node in in_sync
        self.node = node
        self.epoch = epoch
        self.in_sync = in_sync
        self.version = version  # Of that record: every change has a higher one, and is made on condition of the last.
        self.asked: frozenset[int] | None = None
        self.replicas: frozenset[int] | None = None
        self.noted: frozenset[int] | None = None
        self.unclean_epoch = 0  # Under which an operator let a node lead that may lack committed entries; 0 for none.
        # A new leader does not know how much of its log was committed before, only that it has all of that: `index` is
        # where its log ended when its epoch began.
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
        """A follower came (again) and agrees with this log up to `index`, all of it synced there."""
        follower = self.followers.get(node)
        if follower is None:
            follower = self.followers[node] = Follower(now_ms)
            follower.caught_up_ms = -1  # Not yet.
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
        """The log ends at `index` now: whoever answers that from here on is caught up as of now. Call it regularly,
        and ask everybody for an answer.
        """
        for follower in self.followers.values():
            if follower.mark_index < 0:
                follower.mark_index = index
                follower.mark_ms = now_ms

    def wish(self, lag_ms_max: int, now_ms: int) -> frozenset[int] | None:
        """The in-sync set to ask for next; None if it is right as it is. What was asked before comes first."""
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
        """Whether this node is one of those who keep the hall."""
        return self.replicas is None or node in self.replicas

    def _is_noted(self, node: int) -> bool:
        return self.noted is None or node in self.noted or node in self.in_sync

    def give_up(self, node: int) -> None:
        """This follower is gone for certain: it is not waited for as if it were only late."""
        follower = self.followers.get(node)
        if follower is not None:
            follower.caught_up_ms = -1
            follower.mark_index = -1

    def ask(self, in_sync: frozenset[int]) -> None:
        """The coordinator is about to be asked to record this set."""
        assert self.node in in_sync
        assert self.asked in (None, in_sync)
        self.asked = in_sync

    def recorded(self, version: int, in_sync: frozenset[int], replicas: frozenset[int] | None = None) -> None:
        """The coordinator has this record. If it is a newer one, what was asked on condition of the old one is decided:
        it is this, or it will never be.
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
        """How many entries a follower has yet to answer."""
        return max(index - self.followers[node].synced, 0)

    def _advance(self) -> None:
        if self.synced <= self.begun_at:
            return  # Nothing is committed under an epoch that a restart of this node could forget.
        reached = self.synced
        counted = self.in_sync if self.asked is None else self.in_sync | self.asked
        for node in counted:
            if node != self.node:
                follower = self.followers.get(node)
                reached = min(reached, follower.synced if follower is not None else 0)
        self.committed = max(self.committed, reached)
        most = self._kept_by_most(self.in_sync)
        if self.asked is not None:
            most = min(most, self._kept_by_most(self.asked))
        self.quorum = max(self.quorum, self.committed, most)

    def _kept_by_most(self, nodes: frozenset[int]) -> int:
        kept: list[int] = []
        for node in nodes:
            if node == self.node:
                kept.append(self.synced)
            else:
                follower = self.followers.get(node)
                kept.append(follower.synced if follower is not None else 0)
        kept.sort(reverse=True)
        return kept[len(kept) // 2]

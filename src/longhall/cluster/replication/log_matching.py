"""Log matching: what a leader answers to a follower that reports the end of its log. Pure.

| the follower's log | the answer |
|---|---|
| agrees with the leader's up to some index, and the leader's log still has the next entry | go on from there |
| agrees, but the leader's log no longer reaches back so far | full sync |
| has committed entries that the leader lacks | diverged: one of the two histories is wrong, and none is discarded |
"""

from __future__ import annotations

from typing import NamedTuple

from longhall.cluster.rpc.wire import Follow
from longhall.shards.replica import Replica, common_index, contains


class Agreement(NamedTuple):
    """The last common index, and whether the follower's history contradicts the leader's."""

    common: int
    diverged: bool


def agree(replica: Replica, follow: Follow, unclean_epoch: int = 0) -> Agreement:
    """Compare the leader's log with the follower's report of its own.

    A follower knows only a lower bound of what was committed. Where an operator let a node lead that may lack committed
    entries (`unclean_epoch`), all entries of an older log beyond the common ones count as committed, and that log is
    set aside as a whole.
    """
    epochs = replica.epochs.snapshot()
    nonces = (replica.nonces, follow.nonces)
    common = common_index(epochs, replica.index, follow.epochs, follow.index, nonces)
    fits = contains(epochs, replica.index, follow.epochs, follow.index, follow.committed, nonces)
    last = follow.epochs[-1][0] if follow.epochs else 0
    return Agreement(common, not fits or (last < unclean_epoch and common < follow.index))

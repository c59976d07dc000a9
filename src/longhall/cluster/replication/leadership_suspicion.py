"""Leadership suspicion: a leader that has lost the coordinator and its followers may have been replaced.

    coordinator          replicas in sync that answer     the leadership
    connected            any number                       is certain: the record names the leader
    lost                 in_sync_min or more              is certain: they follow this node and no other
    lost                 this node is the only one        is certain: no other node can be elected
    lost for a while     fewer than in_sync_min           is doubtful: another node may have been elected

Requests are not refused because of it: a write of such a leader is committed by the replicas in sync, or not at all.
But a client that asks for the leader is told that there is none, so that it asks another node too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, final

from longhall.cluster.replication.roles import ReplicaStatus
from longhall.coordination.ports import Session

LOST_S: Final = 0.5  # A connection that is only made again is back sooner.


@final
class LeadershipSuspicion:
    """The suspicion of one node, from the state of its coordinator session and the status of its replica."""

    def __init__(self, in_sync_min: int) -> None:
        self._in_sync_min = in_sync_min
        self._lost_since_s: float | None = None
        self._loop = asyncio.get_running_loop()

    def session_changed(self, session: Session) -> None:
        """The state of the coordinator session has changed."""
        if session is Session.CONNECTED:
            self._lost_since_s = None
        elif self._lost_since_s is None:
            self._lost_since_s = self._loop.time()

    def has_reason(self, status: Callable[[], ReplicaStatus]) -> bool:
        """True if the leader has lost contact with the coordinator and with the in-sync quorum."""
        if self._lost_since_s is None or self._loop.time() - self._lost_since_s <= LOST_S:
            return False
        leader = status()
        answering = sum(one.in_sync and one.connected for one in leader.followers)
        return 1 + answering < min(self._in_sync_min, len(leader.in_sync))

"""Whether a leader has reason to doubt that it still leads.

    the coordinator      those in sync           it is
    is heard             whoever answers         no matter of doubt: the record says who leads
    is away              in_sync_min and more    no matter of doubt: they follow it, and nobody else
    is away              this node alone         none either: nobody else can be chosen
    is away for a while  fewer than in_sync_min  doubtful: another one may have been chosen, and nobody could tell

It is nothing to refuse anybody for: what such a leader does is committed by everybody in sync, or not at all. But
clients that ask where to go had better ask somebody else, too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, final

from longhall.cluster.replication.roles import ReplicaStatus
from longhall.coordination.ports import Session

AWAY_S: Final = 0.5  # Connections that are only made anew are there again before.


@final
class LeadershipSuspicion:
    """See the module. Told of sessions; the rest the member says when it is asked."""

    def __init__(self, in_sync_min: int) -> None:
        self._in_sync_min = in_sync_min
        self._away_since_s: float | None = None
        self._loop = asyncio.get_running_loop()

    def session_changed(self, session: Session) -> None:
        """The session with the coordinator is this from now on."""
        if session is Session.CONNECTED:
            self._away_since_s = None
        elif self._away_since_s is None:
            self._away_since_s = self._loop.time()

    def has_reason(self, status: Callable[[], ReplicaStatus]) -> bool:
        """Whether a leader that stands like this has."""
        if self._away_since_s is None or self._loop.time() - self._away_since_s <= AWAY_S:
            return False
        leader = status()
        answering = sum(one.in_sync and one.connected for one in leader.followers)
        return 1 + answering < min(self._in_sync_min, len(leader.in_sync))

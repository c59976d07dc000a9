"""Readiness: whether a client's send through this node would succeed now, and if not, why.

    the node                    a send succeeds when
    was told to stop            never: balancers have to choose another one. Its answers to other nodes do not change
    is alone                    it has recovered, its disk takes writes, memory is left, and no background task fails
    leads a cluster             the same, enough nodes are in sync and connected, and its leadership is not in doubt
    follows, or has no data     it works itself, and the leader replies over the peers port that a send would succeed

The leader's reply is cached for a moment. Liveness (`/healthz`) is separate: a node that is not ready may still be
healthy.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, final

from longhall.broker.hall import Hall
from longhall.broker.leadership import NOBODY
from longhall.cluster.rpc.peers import Peers
from longhall.errors import Code, LonghallError
from longhall.front.admission import Budget
from longhall.names import CATALOGUE_SHARD

if TYPE_CHECKING:
    from longhall.node.cluster_node import ClusterNode

READY: Final = "ready"
DRAINING: Final = "draining"  # The phase of a node that stops.
ANSWER_S_MAX: Final = 1.0
KEPT_S: Final = 1.0

_REFUSALS: Final = {
    Code.NOT_LEADER: "this node does not lead yet, or no longer",
    Code.NOT_ENOUGH_REPLICAS: "too few nodes are in sync",
}


@final
class Readiness:
    """The readiness of one node. `state` is "starting", "draining" or a similar phase; None while the node serves."""

    def __init__(self, hall: Hall, budget: Budget) -> None:
        self.state: str | None = "starting"
        self.draining = False  # Told to stop; clients are served as before until the delay is over.
        self._hall = hall
        self._budget = budget
        self._peers: Peers | None = None
        self._fellowship: ClusterNode | None = None
        self._said: tuple[int, float, str | None] = (NOBODY, 0.0, None)  # The last reply: leader, time, reason.

    def serve(self, peers: Peers, cluster_node: ClusterNode | None = None) -> None:
        """Answer readiness requests of other nodes or workers, and send such requests."""
        self._peers = peers
        self._fellowship = cluster_node
        peers.serve(READY, self._answer)

    async def trouble(self) -> str | None:
        """Why a send would fail now; None if it would not."""
        if self.draining:
            return DRAINING
        leadership = self._hall.leadership
        if leadership is None or leadership.leads(CATALOGUE_SHARD):
            return self._joined(self._own(), self._as_leader())
        own = self.own_trouble()
        leader = leadership.leader_node(CATALOGUE_SHARD)
        if own is not None:
            return own
        return await self._ask(leader) if leader not in (NOBODY, leadership.node) else "no node leads at the moment"

    def own_trouble(self) -> str | None:
        """Why no send through this node would succeed, wherever the leader is."""
        return self._joined(self._own())

    def _joined(self, *reasons: list[str]) -> str | None:
        return self.state or "; ".join([one for some in reasons for one in some]) or None

    def _own(self) -> list[str]:
        hall, found = self._hall, []
        if hall.commits.failure is not None:
            found.append(f"the disk failed: {hall.commits.failure}")
        if self._budget.bytes_max and self._budget.used_bytes >= self._budget.bytes_max:
            found.append("the memory budget is exhausted")
        found += [f"the background task {name!r} fails: {why}" for name, why in sorted(hall.background.failing.items())]
        return found

    def _as_leader(self) -> list[str]:
        hall, found = self._hall, []
        if hall.storage_full:
            found.append("the disk is full or takes no writes: messages are refused")
        if hall.refusal is not None:
            found.append(_REFUSALS.get(hall.refusal, hall.refusal.value))
        cluster_node = self._fellowship
        if cluster_node is not None and cluster_node.member is not None:
            if cluster_node.session.leader_node(CATALOGUE_SHARD) == NOBODY:
                found.append("neither the coordinator nor enough nodes in sync answer")
            followers = cluster_node.member.status().followers
            silent = [one.node for one in followers if one.in_sync and not one.connected]
            found += [f"node {one} is in sync and not connected" for one in silent]
        return found

    async def _ask(self, leader: int) -> str | None:
        now_s = asyncio.get_running_loop().time()
        asked, at_s, said = self._said
        if asked == leader and now_s - at_s < KEPT_S:
            return said
        assert self._peers is not None
        try:
            answer = await self._peers.request(leader, READY, b"", ANSWER_S_MAX)
            said = f"the leader, node {leader}, is not ready: {answer.decode()}" if answer else None
        except LonghallError:
            said = None  # It answers but does not know the verb: an earlier version.
        except (OSError, TimeoutError) as error:
            said = f"the leader, node {leader}, does not answer: {error or 'time-out'}"
        self._said = (leader, now_s, said)
        return said

    async def _answer(self, node: int, asked: bytes) -> bytes:
        leadership = self._hall.leadership
        if leadership is not None and not leadership.leads(CATALOGUE_SHARD):
            return b"it does not lead"
        return (self._joined(self._own(), self._as_leader()) or "").encode()

"""Quarantine: followers whose state differs from the majority's may not follow until they have done a full sync."""

from __future__ import annotations

from collections.abc import Callable
from typing import final

from longhall.cluster.replication.follower_stream import FollowerStream
from longhall.cluster.rpc.link import Link
from longhall.cluster.rpc.wire import REFUSAL, Refusal


@final
class Quarantine:
    """The followers in quarantine at the leader `node`, with the reason. `streams` are the leader's; `give_up` takes a
    follower out of the in-sync set; `on_self` is called if it is the leader itself that differs.
    """

    def __init__(
        self,
        node: int,
        streams: dict[int, FollowerStream],
        give_up: Callable[[int], None],
        on_self: Callable[[str], None],
    ) -> None:
        self.reasons: dict[int, str] = {}  # By node.
        self._node = node
        self._on_self = on_self
        self._streams = streams
        self._give_up = give_up

    def exclude(self, node: int, reason: str) -> None:
        """The state of this node differs. A follower leaves the in-sync set, and learns why when it connects."""
        if node == self._node:
            self._on_self(reason)
            return
        self.reasons[node] = reason
        stream = self._streams.pop(node, None)
        if stream is not None:
            stream.close("the state of the follower is not the majority's")
        self._give_up(node)

    def refuses(self, link: Link, node: int, epoch: int) -> bool:
        """True if the node may not follow; the refusal gives the reason, and asks for a full sync."""
        reason = self.reasons.get(node)
        if reason is None:
            return False
        refusal = f"the state of node {node} is not the majority's: {reason}"
        link.send(REFUSAL, Refusal(reason=refusal, epoch=epoch, divergent=True))
        link.close(refusal)
        return True

    def readmit(self, node: int) -> None:
        """The node begins a full sync from this leader."""
        self.reasons.pop(node, None)

"""Followers that a leader does not let follow: their state is not the majority's, until they fetch everything."""

from __future__ import annotations

from collections.abc import Callable
from typing import final

from longhall.cluster.replication.follower_stream import FollowerStream
from longhall.cluster.rpc.link import Link
from longhall.cluster.rpc.wire import REFUSAL, Refusal


@final
class Quarantine:
    """See the module. `streams` are those of the leader `node`; `give_up` takes a follower out of the in-sync set, and
    `on_self` hears that it is the leader itself that differs.
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
        """This node was found to differ. A follower is out of the in-sync set, and hears why when it comes back."""
        if node == self._node:
            self._on_self(reason)
            return
        self.reasons[node] = reason
        stream = self._streams.pop(node, None)
        if stream is not None:
            stream.close("the state of the follower is not the majority's")
        self._give_up(node)

    def refuses(self, link: Link, node: int, epoch: int) -> bool:
        """Whether the node may not follow; it is told why, and to fetch everything."""
        reason = self.reasons.get(node)
        if reason is None:
            return False
        told = f"the state of node {node} is not the majority's: {reason}"
        link.send(REFUSAL, Refusal(reason=told, epoch=epoch, divergent=True))
        link.close(told)
        return True

    def readmit(self, node: int) -> None:
        """It fetches everything from here."""
        self.reasons.pop(node, None)

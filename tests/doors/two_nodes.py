"""Two nodes in one process, the second of which believes that the first leads: doors of a cluster without a cluster."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from longhall.broker.leadership import Host
from longhall.cluster.rpc.authentication import Secrets
from longhall.cluster.rpc.peers import Peers
from longhall.cluster.rpc.request_client import AnswerTarget
from longhall.errors import Code, LonghallError
from longhall.node.addresses import DOORS
from longhall.node.assembly import Node
from longhall.node.settings import Settings
from longhall.service.call_codec import decode_call
from longhall.world.real.world import real_world

LEADER, FOLLOWER = 1, 2
FREE: dict[str, Any] = dict.fromkeys(DOORS, "127.0.0.1:0")


SECRET = b"a secret of the two nodes"


class Told:
    """A `Leadership` that says what the test wants."""

    def __init__(self, node: int, nodes: dict[int, Node]) -> None:
        self.node = node
        self.leader = LEADER
        self._nodes = nodes

    def leads(self, shard: int) -> bool:
        return self.leader == self.node

    def leader_node(self, shard: int) -> int:
        return self.leader

    def epoch(self, shard: int) -> int:
        return 1

    def replicas(self, shard: int) -> list[int]:
        return [LEADER, FOLLOWER, 3]

    def in_sync(self, shard: int) -> list[int]:
        return [LEADER, FOLLOWER]

    def members(self) -> list[Host]:
        return [Host(node=number, kafka=str(node.kafka), rack=f"rack{number}") for number, node in self._nodes.items()]


class Hand:
    """The way from the follower to the leader: what goes there, and what the test has happen to it."""

    def __init__(self, follower: Node, peers: Peers) -> None:
        self.asked: list[str] = []  # Names of the operations.
        self.confirmed = 0
        self.on_confirm: Callable[[], None] = _nothing
        self.refusal: Code | None = None
        self._follower = follower
        self._send = peers.send
        peers.send = self._record  # type: ignore[method-assign]

    @property
    def under_way(self) -> int:
        """Operations that the leader has not answered yet."""
        assert self._follower.service._leader is not None
        return len(self._follower.service._leader._calls)

    async def confirm(self) -> None:
        self.confirmed += 1
        self.on_confirm()
        if self.refusal is not None:
            raise LonghallError(self.refusal, "not now")

    def _record(self, node: int, verb: str, body: bytes, target: AnswerTarget) -> Callable[[], None]:
        if self.refusal is not None:
            raise LonghallError(self.refusal, "not now")
        self.asked.append(type(decode_call(body).operation).__name__)
        return self._send(node, verb, body, target)


def _nothing() -> None:
    """Until a test says otherwise."""


class TwoNodes:
    """What a test may touch."""

    def __init__(self, nodes: dict[int, Node], told: Told, hand: Hand) -> None:
        self.leader = nodes[LEADER]
        self.follower = nodes[FOLLOWER]
        self.told = told
        self.hand = hand


@asynccontextmanager
async def two_nodes(directory: Path, *, audit: bool = False) -> AsyncIterator[TwoNodes]:
    worlds = {number: real_world(str(directory / f"node{number}")) for number in (LEADER, FOLLOWER)}
    nodes: dict[int, Node] = {}
    try:
        for number, world in worlds.items():
            nodes[number] = Node(world, Settings(**FREE, drain_ms=0, audit=audit))
            await nodes[number].start(lambda error: None)
        told = {number: Told(number, nodes) for number in nodes}
        for number, node in nodes.items():
            node.hall.leadership = told[number]
            node.name(number, "")
        peers = {number: Peers(worlds[number], "hall", number, 1, secrets=Secrets([SECRET])) for number in nodes}
        addresses = {number: ("127.0.0.1", await peers[number].open("127.0.0.1", 0)) for number in nodes}
        for number in nodes:
            peers[number].addresses = {other: at for other, at in addresses.items() if other != number}
        hand = Hand(nodes[FOLLOWER], peers[FOLLOWER])
        nodes[LEADER].service.join(told[LEADER], peers[LEADER])
        nodes[FOLLOWER].service.join(told[FOLLOWER], peers[FOLLOWER], confirm=hand.confirm)
        yield TwoNodes(nodes, told[FOLLOWER], hand)
        for number in nodes:
            told[number].leader = number
        await asyncio.gather(*(node.stop() for node in nodes.values()))
        for number, node in nodes.items():
            node.service.close()
            await peers[number].close()
    finally:
        for world in worlds.values():
            world.close()

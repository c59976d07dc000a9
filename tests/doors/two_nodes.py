"""Two nodes in one process, the second of which believes that the first leads: doors of a cluster without a cluster."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from longhall.broker.leadership import Host
from longhall.errors import Code, LonghallError
from longhall.front.carried import answer_carried
from longhall.front.carrying import SQS_CALL
from longhall.node.assembly import Node
from longhall.node.settings import Settings
from longhall.world.real.world import real_world

LEADER, FOLLOWER = 1, 2


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
    """A `Carrier` that puts the bytes into the leader's door itself."""

    def __init__(self, told: Told, leader: Node) -> None:
        self.carried: list[str] = []
        self.under_way = 0
        self.confirmed = 0
        self.on_confirm: Callable[[], None] = _nothing
        self.refusal: Code | None = None
        self._told = told
        self._leader = leader

    def elsewhere(self) -> bool:
        return not self._told.leads(0)

    async def confirm(self) -> None:
        self.confirmed += 1
        self.on_confirm()
        if self.refusal is not None:
            raise LonghallError(self.refusal, "not now")

    async def carry(self, door: str, peer: str, request: bytes, waits: bool = False) -> bytes:
        if self.refusal is not None:
            raise LonghallError(self.refusal, "not now")
        self.carried.append(door)
        self.under_way += 1
        try:
            if door == SQS_CALL:
                return await self._leader.answer_handed(request)
            return await answer_carried(self._leader.entrances[door], peer, request)
        finally:
            self.under_way -= 1


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
async def two_nodes(directory: Path, *, hands_over: bool = False) -> AsyncIterator[TwoNodes]:
    worlds = {number: real_world(str(directory / f"node{number}")) for number in (LEADER, FOLLOWER)}
    nodes: dict[int, Node] = {}
    try:
        for number, world in worlds.items():
            nodes[number] = Node(
                world, Settings(kafka="127.0.0.1:0", sqs="127.0.0.1:0", http="127.0.0.1:0", drain_ms=0)
            )
            await nodes[number].start(lambda error: None)
        told = {number: Told(number, nodes) for number in nodes}
        for number, node in nodes.items():
            node.hall.leadership = told[number]
            node.name(number, "")
        hand = Hand(told[FOLLOWER], nodes[LEADER])
        nodes[FOLLOWER].carry_with(hand, hands_over=hands_over)
        yield TwoNodes(nodes, told[FOLLOWER], hand)
        for number in nodes:
            told[number].leader = number
        await asyncio.gather(*(node.stop() for node in nodes.values()))
    finally:
        for world in worlds.values():
            world.close()

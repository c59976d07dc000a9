"""A hall and two wings, each one node, all in this process: what doors and verbs make of wings, without a cluster."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import msgspec

from longhall.broker.hall import Hall
from longhall.broker.leadership import Host
from longhall.broker.pending import Pending, failed, started
from longhall.broker.placement import WING_STEP, GroupLocation, PartitionLocation
from longhall.broker.topic_administration import add_partitions, configure_topic, create_topic, delete_topic
from longhall.broker.transaction_appends import Appended, TransactionBatch
from longhall.broker.transaction_markers import PartitionMarkers, write_markers
from longhall.broker.transaction_participant import SettleRequest
from longhall.broker.transaction_verification import TransactionVerification
from longhall.cluster.placement.group_client import GroupClient
from longhall.cluster.placement.group_transactions import CoordinatorSide, GroupSide
from longhall.cluster.placement.share_positions import PlacedSharePositions, serve_share_positions
from longhall.cluster.placement.transaction_operations import VerifyPartition
from longhall.cluster.rpc.operation import (
    NOBODY_IN_PARTICULAR,
    Caller,
    Operation,
    decode_reply,
    encode_call,
    encode_reply,
)
from longhall.coordination.ports import ReplicationGroup
from longhall.errors import Code, LonghallError
from longhall.node.addresses import DOORS
from longhall.node.assembly import Node
from longhall.node.settings import Settings
from longhall.service.call_codec import decode_call
from longhall.world.real.world import real_world

FIRST, SECOND = 1, 2  # The numbers of the wings.


FREE: dict[str, Any] = dict.fromkeys(DOORS, "127.0.0.1:0")


def broker_of(wing: int) -> int:
    """The broker id of the process of a wing, which is on host 1."""
    return wing * WING_STEP + 1


class ToldWings:
    """A `Wings` that chooses what the test wants, and writes down what it was asked."""

    def __init__(self, hall: Hall, processes: dict[int, Node]) -> None:
        self.chosen = [FIRST, SECOND]
        self.asked: list[tuple[str, ...]] = []
        self.refusal: Code | None = None
        self.held = asyncio.Event()  # `choose` waits for it.
        self.held.set()
        self.leaderless: set[int] = set()
        self.markers: list[PartitionMarkers] = []  # The requests that wings were sent.
        self._hall = hall
        self._processes = processes

    def is_placed(self, topic: str) -> bool:
        return bool(self._lanes(topic))

    def kept(self, topic: str, partition: int) -> PartitionLocation:
        lanes = self._lanes(topic)
        wing = lanes[partition % len(lanes)]
        epoch = self._processes[wing].hall.shards[1].epoch if wing in self._processes else 7
        replicas = [broker_of(wing), broker_of(wing) + 1]
        return PartitionLocation(0 if wing in self.leaderless else replicas[0], epoch, replicas, replicas[:1])

    def brokers(self) -> list[Host]:
        return [Host(node=broker_of(wing), kafka=str(node.kafka), rack="r") for wing, node in self._processes.items()]

    def groups(self) -> list[GroupLocation]:
        return [GroupLocation(number, f"wing-{number}", [broker_of(number)]) for number in self._processes]

    def spread(self, copies_min: int = 0) -> list[int]:
        return []

    async def choose(self, placement: str, name: str) -> list[int]:
        self.asked.append(("choose", placement, name))
        await self.held.wait()
        self._maybe_refuse()
        return self.chosen

    async def furnish(self, name: str) -> None:
        self.asked.append(("furnish", name))
        self._maybe_refuse()
        topic = self._hall.catalogue.topics[name]
        for wing in self._lanes(name):
            if wing not in self._processes:
                continue
            hall = self._processes[wing].hall
            known = hall.topic(name)
            if known is None:
                count = len(topic.partitions)
                await create_topic(hall, name, count, topic.configuration, topic_id=topic.topic_id)
                continue
            if len(known.partitions) < len(topic.partitions):
                await add_partitions(hall, name, len(topic.partitions))
            await configure_topic(hall, name, topic.configuration)

    async def clear(self, name: str, topic_id: bytes, wings: list[int]) -> None:
        self.asked.append(("clear", name, *map(str, wings)))
        self._maybe_refuse()
        for wing in wings:
            if wing in self._processes:
                await delete_topic(self._processes[wing].hall, name)

    async def write_markers(self, group: int, request: PartitionMarkers) -> list[Code | None]:
        self._maybe_refuse()
        if group in self.leaderless:
            raise LonghallError(Code.NOT_READY, "no leader")
        self.markers.append(request)
        return await write_markers(self._processes[group].hall, request)

    async def settle_in_group(self, group: int, request: SettleRequest) -> Code | None:
        raise AssertionError("these groups have no queues")

    async def append_in_transaction(self, group: int, batch: TransactionBatch) -> Appended:
        raise AssertionError("these groups have no queues")

    @property
    def records(self) -> dict[str, ReplicationGroup]:
        found = [ReplicationGroup(number=number, name=f"wing-{number}", hosts=(1,)) for number in self._processes]
        return {group.name: group for group in found}

    def call(self, number: int, operation: Operation[Any], *, now: bool = False) -> Pending[Any]:
        """Have a wing carry out an operation, which goes there in bytes and back."""
        if number in self.leaderless:
            return failed(LonghallError(Code.NOT_LEADER if now else Code.NOT_READY, "no leader"))
        call = decode_call(encode_call(operation))
        return started(self._answer(operation, self._processes[number].broker.carry_out(call.operation, call.caller)))

    async def _answer(self, operation: Operation[Any], reply: Pending[Any]) -> Any:
        return decode_reply(operation, encode_reply(await reply))

    def _lanes(self, topic: str) -> list[int]:
        found = self._hall.topic(topic)
        return found.options.wings if found is not None else []

    def _maybe_refuse(self) -> None:
        if self.refusal is not None:
            raise LonghallError(self.refusal, "not now")


class ToMain:
    """The way of a group's process to the hall: a `GroupClient` that has the hall's broker carry operations out."""

    def __init__(self, main: Node) -> None:
        self.asked = 0
        self.refusal: Code | None = None
        self.delivers = asyncio.Event()  # Replies wait for it.
        self.delivers.set()
        self._main = main

    def call(self, operation: Operation[Any], caller: Caller = NOBODY_IN_PARTICULAR) -> Pending[Any]:
        if self.refusal is not None:
            return failed(LonghallError(self.refusal, "not now"))
        self.asked += 1
        reply = self._main.service.dispatch(operation, caller)
        return reply if self.delivers.is_set() else started(self._deliver(reply))

    async def _deliver(self, reply: Pending[Any]) -> Any:
        outcome = await reply
        await self.delivers.wait()
        return outcome


class HallAndWings:
    """What a test may touch."""

    def __init__(self, main: Node, wings: dict[int, Node]) -> None:
        self.main = main
        self.first = wings[FIRST]
        self.second = wings[SECOND]
        self.told = ToldWings(main.hall, wings)
        self.way = ToMain(main)


@asynccontextmanager
async def hall_and_wings(directory: Path) -> AsyncIterator[HallAndWings]:
    worlds = [real_world(str(directory / name)) for name in ("main", "first", "second")]
    nodes: list[Node] = []
    try:
        for world in worlds:
            settings = Settings(**FREE, drain_ms=0)
            nodes.append(Node(world, settings))
            await nodes[-1].start(lambda error: None)
        main, first, second = nodes
        all_of_it = HallAndWings(main, {FIRST: first, SECOND: second})
        main.hall.feature_level = 3
        main.hall.wings = all_of_it.told
        coordinator = CoordinatorSide(main.hall, main.kafka_door.transactor)
        main.broker.also(VerifyPartition, lambda op, caller: coordinator.verify(op))
        main.kafka_door.share_groups.connect(PlacedSharePositions(main.hall, all_of_it.told))
        for number, node in ((FIRST, first), (SECOND, second)):
            serve_share_positions(node.hall, node.broker)
            node.hall.options = msgspec.structs.replace(node.hall.options, wing=number)
            node.name(broker_of(number), "")
            node.kafka_door.main = cast(GroupClient, all_of_it.way)
            side = GroupSide(node.hall, cast(GroupClient, all_of_it.way))
            node.hall.transaction_verifier = TransactionVerification(node.hall, side)
        yield all_of_it
        await asyncio.gather(*(node.stop() for node in nodes))
    finally:
        for world in worlds:
            world.close()

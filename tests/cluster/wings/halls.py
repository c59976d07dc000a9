"""A hall and its wings in one process: a concourse over the desks of several halls, each on a disk of its own."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import msgspec

from longhall.broker.options import HallOptions
from longhall.broker.queues.desk import Desk
from longhall.cluster.placement.placement_rules import SHARE, configuration_in_wing, settings_in_wing
from longhall.cluster.wings import calls
from longhall.cluster.wings.answering import Answering
from longhall.cluster.wings.calls import Verb
from longhall.cluster.wings.concourse import Concourse
from longhall.errors import Code, LonghallError
from longhall.log.chores import CHORES
from longhall.node.group_process import PARTITIONS_APART
from longhall.queues.messages import Delivery, Outgoing
from simulation.world import Simulation
from tests.broker.desk import OPTIONS, Life

R = TypeVar("R")


class Near:
    """Fulfils `Reach`: all wings are here. Those in `away` have no leader; in `lost` the answer never comes back."""

    def __init__(self, main: Life, wings: dict[int, Answering]) -> None:
        self.leads = True
        self.near: list[int] = []  # In this order, where they are near at all.
        self.away: set[int] = set()
        self.lost: set[int] = set()
        self.share = 1  # Where the next one goes.
        self.asked: list[tuple[int, str]] = []
        self._main = main
        self._wings = wings

    def is_placed(self, topic: str) -> bool:
        return bool(self._lanes(topic))

    def nearest(self, numbers: tuple[int, ...]) -> list[int]:
        return sorted(numbers, key=lambda number: (number not in self.near, number))

    async def call(self, number: int, verb: Verb[R], *arguments: Any, waits: bool = False, life: bytes = b"") -> R:
        if number in self.away:
            raise LonghallError(Code.NOT_READY, "nobody leads; try again")
        self.asked.append((number, verb.name))
        answer = await self._wings[number].answer(calls.encode_call(verb, *arguments, life=life))
        if number in self.lost:
            raise LonghallError(Code.TIMED_OUT, "the leader did not answer; it may have done what was asked")
        return calls.decode_result(verb, answer)

    async def call_now(self, number: int, verb: Verb[R], *arguments: Any, life: bytes = b"") -> R:
        if number in self.away:
            raise LonghallError(Code.NOT_LEADER, "nobody leads at the moment")
        return await self.call(number, verb, *arguments, life=life)

    async def choose(self, placement: str, name: str) -> list[int]:
        return [self.share] if placement == SHARE else sorted(self._wings)

    async def furnish(self, name: str) -> None:
        topic = self._main.hall.catalogue.topics[name]
        entry = self._main.hall.catalogue.queues.by_name.get(name)
        furniture = calls.Furniture(
            name=name,
            topic_id=topic.topic_id,
            partitions=len(topic.partitions),
            configuration=configuration_in_wing(topic.configuration, len(topic.options.wings)),
            queue=settings_in_wing(entry.settings) if entry is not None else None,
        )
        for number in topic.options.wings:
            await self.call(number, calls.FURNISH, furniture)

    async def clear(self, name: str, topic_id: bytes, wings: list[int]) -> None:
        for number in wings:
            await self.call(number, calls.CLEAR, name, topic_id)

    def kept(self, topic: str, partition: int) -> Any:
        raise AssertionError("no Kafka client asks here")

    def brokers(self) -> list[Any]:
        return []

    def _lanes(self, topic: str) -> list[int]:
        entry = self._main.hall.catalogue.topics.get(topic)
        return entry.options.wings if entry is not None else []


class House:
    """All of it."""

    def __init__(self, main: Life, wings: dict[int, Life]) -> None:
        self.main = main
        self.wings = wings
        self.desks = {number: Desk(life.hall) for number, life in wings.items()}
        self.desk = Desk(main.hall)
        self.answering = {number: Answering(wings[number].hall, desk) for number, desk in self.desks.items()}
        self.reach = Near(main, self.answering)
        main.hall.wings = self.reach
        main.hall.feature_level = 3
        self.queues = Concourse(main.hall, self.desk, self.reach)

    async def send(self, name: str, *bodies: bytes, **more: Any) -> list[str]:
        """The ids; all of them must be taken."""
        told = await self.queues.send(name, [Outgoing(body=body, **more) for body in bodies])
        assert [one.code for one in told] == [None] * len(bodies), told
        return [one.message_id for one in told]

    async def receive(self, name: str, count_max: int = 10, wait_ms: int = 0, lease_ms: int = 30_000) -> list[Delivery]:
        return await self.queues.receive(name, count_max, wait_ms, lease_ms, "")

    async def drain(self, name: str) -> list[bytes]:
        """Everything that can be received, settled."""
        bodies: list[bytes] = []
        while found := await self.receive(name):
            assert await self.queues.settle(name, [one.receipt for one in found]) == [None] * len(found)
            bodies += [one.body for one in found]
        return bodies


def live(play: Callable[[House], Coroutine[Any, Any, None]], wings: int = 3, seed: int = 1) -> None:
    """Play with a hall of so many wings."""
    simulation = Simulation(seed)

    async def inside() -> None:
        lives: list[Life] = []
        for number in range(wings + 1):
            host = simulation.host(f"hall{number}")
            host.faults.cold_read_chance = 0.0
            life = Life(host.boot(CHORES), _options(number))
            await life.hall.commits.durable()
            lives.append(life)
        house = House(lives[0], dict(enumerate(lives[1:], 1)))
        for desk in (house.desk, *house.desks.values()):
            desk.start()
        await play(house)
        for desk in (house.desk, *house.desks.values()):
            await desk.stop()

    simulation.run(inside())


def _options(number: int) -> HallOptions:
    return msgspec.structs.replace(OPTIONS, wing=number, first_partition=number * PARTITIONS_APART + 1)

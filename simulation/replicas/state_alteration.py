"""Alters the state of one node after another, without an entry: each difference must be found and repaired."""

from __future__ import annotations

import asyncio
import random
from typing import Final, final

from longhall.broker.hall import Hall
from simulation.checkers.violation import demand
from simulation.replicas.host_names import name_of
from simulation.replicas.simulated_cluster import SimulatedCluster

FOUND_S: Final = 60.0
PAUSE_S: Final = 3.0
LOOK_S: Final = 0.1
TOPIC: Final = "events"
MARK: Final = "altered"


@final
class StateAlteration:
    """Alters one replica at a time, so that the majority is right."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self.count = 0
        self._cluster = cluster
        self._chance: random.Random = cluster.simulation.stream("alteration")

    async def run(self, seconds: float) -> None:
        """Alter states for so many seconds."""
        loop = asyncio.get_running_loop()
        ends_at = loop.time() + seconds
        while loop.time() < ends_at:
            await self._cluster.up(FOUND_S)
            await asyncio.sleep(self._chance.uniform(0, PAUSE_S))
            number = self._chance.choice(self._cluster.numbers)
            node = self._cluster.nodes.get(number)
            if node is not None and TOPIC in node.hall.catalogue.topics:
                self._alter(number)
                await self._found(number)

    def _alter(self, number: int) -> None:
        self.count += 1
        self._cluster.watch.alter(number, _is_altered)
        self._cluster.nodes[number].hall.catalogue.topics[TOPIC].configuration[MARK] = "behind its back"

    async def _found(self, number: int) -> None:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + FOUND_S
        while self._cluster.watch.is_altered(number):
            demand(
                loop.time() < deadline,
                f"the altered state of {name_of(number)} was not found and repaired within {FOUND_S} s",
            )
            await asyncio.sleep(LOOK_S)


def _is_altered(hall: Hall) -> bool:
    return TOPIC not in hall.catalogue.topics or MARK in hall.catalogue.topics[TOPIC].configuration

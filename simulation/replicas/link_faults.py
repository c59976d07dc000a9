"""Links that are cut, in both directions or one, reset or slow: between nodes, to clients, to the coordinator."""

from __future__ import annotations

import asyncio
import random
from typing import Final, final

from simulation.network import LATENCY_MS
from simulation.replicas.fault_target import FaultTarget
from simulation.replicas.host_names import name_of
from simulation.scenarios.run_context import CLIENTS

SLOW_MS: Final = (1.0, 120.0)
CUT_S: Final = (0.5, 1.0, 2.5, 5.0, 10.0)


@final
class LinkFaults:
    """The link faults that a menu can name; each method breaks links and heals them."""

    def __init__(self, cluster: FaultTarget, chance: random.Random) -> None:
        self._cluster = cluster
        self._nodes = cluster.numbers
        self._fabric = cluster.simulation.fabric
        self._chance = chance

    def heal(self) -> None:
        """Heal all links."""
        names = [*map(name_of, self._nodes), CLIENTS]
        for one in names:
            for other in names:
                self._fabric.heal(one, other)
        for node in self._nodes:
            self._cluster.heal_coordinator(node)
        self._cluster.lose_words(0.0)
        self._fabric.latency_ms = LATENCY_MS

    async def cut_the_leader_from_followers(self) -> None:
        leader = self._leader()
        await self._cut([(leader, other) for other in self._nodes if other != leader])

    async def cut_in_two(self) -> None:
        """Partition the nodes in two; all reach the coordinator and the clients."""
        here = self._chance.sample(self._nodes, self._chance.randint(1, len(self._nodes) - 1))
        await self._cut([(one, other) for one in here for other in self._nodes if other not in here])

    async def cut_one_way(self) -> None:
        one, other = self._chance.sample(self._nodes, 2)
        await self._cut([(one, other)], both=False)

    async def cut_off(self) -> None:
        """Cut a node off from all others and from the coordinator."""
        node = self._chance.choice(self._nodes)
        self._cluster.cut_coordinator(node)
        await self._cut([(node, other) for other in self._nodes if other != node])
        self._cluster.heal_coordinator(node)

    async def isolate_the_leader(self) -> None:
        """Cut the leader off from the nodes and the coordinator, but not from clients: it is deposed and does not
        notice.
        """
        leader = self._leader()
        self._cluster.cut_coordinator(leader)
        links = [(name_of(leader), name_of(other)) for other in self._nodes if other != leader]
        await self._cut_links([*links, *((other, one) for one, other in links)], (6.0, 10.0, 14.0))
        self._cluster.heal_coordinator(leader)

    async def cut_from_clients(self) -> None:
        node = name_of(self._chance.choice(self._nodes))
        ways = [(node, CLIENTS), (CLIENTS, node)]
        await self._cut_links(self._chance.choice((ways, ways[:1], ways[1:])))

    async def reset(self) -> None:
        self._fabric.reset(name_of(self._chance.choice(self._nodes)), 0.5)

    async def slow_links(self) -> None:
        self._fabric.latency_ms = SLOW_MS
        await asyncio.sleep(self._chance.uniform(1, 10))
        self._fabric.latency_ms = LATENCY_MS

    async def _cut(self, pairs: list[tuple[int, int]], *, both: bool = True) -> None:
        links = [(name_of(one), name_of(other)) for one, other in pairs]
        if both:
            links += [(other, one) for one, other in links]
        await self._cut_links(links)

    async def _cut_links(self, links: list[tuple[str, str]], seconds: tuple[float, ...] = CUT_S) -> None:
        for one, other in links:
            self._fabric.cut(one, other)
        await asyncio.sleep(self._chance.choice(seconds))
        for one, other in links:
            self._fabric.heal(one, other)

    # The coordinator.

    async def cut_from_the_coordinator(self) -> None:
        node = self._leader() if self._chance.random() < 0.5 else self._chance.choice(self._nodes)
        self._cluster.cut_coordinator(node)
        await asyncio.sleep(self._chance.choice((1.0, 4.0, 8.0)))
        self._cluster.heal_coordinator(node)

    async def lose_words_of_the_coordinator(self) -> None:
        self._cluster.lose_words(0.3)
        await asyncio.sleep(self._chance.uniform(1, 10))
        self._cluster.lose_words(0.0)

    async def lose_the_coordinator(self) -> None:
        """Cut all nodes off from the coordinator, for a moment or for longer than a session."""
        for node in self._nodes:
            self._cluster.cut_coordinator(node)
        await asyncio.sleep(self._chance.choice((1.0, 4.0, 8.0)))
        for node in self._nodes:
            self._cluster.heal_coordinator(node)

    async def expire_a_session(self) -> None:
        """Expire a session, mostly the leader's: the node does not notice at once and goes on for a moment."""
        node = self._leader() if self._chance.random() < 0.7 else self._chance.choice(self._nodes)
        self._cluster.expire_session(node)

    def _leader(self) -> int:
        return self._cluster.leader_number() or self._chance.choice(self._nodes)

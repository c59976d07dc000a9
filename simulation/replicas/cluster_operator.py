"""An operator of the cluster: adds and drains hosts, moves replicas and leaders, and at times kills a host meanwhile.

The cluster refuses each request or completes it; `SimulatedCluster.up` checks that after all faults are healed.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Coroutine
from typing import Any, Final, final

from longhall.cluster.membership.hosts import Hosts
from longhall.errors import LonghallError
from simulation.loop import PowerCut
from simulation.replicas.simulated_cluster import SimulatedCluster

PATIENCE_S: Final = 10.0
CALM_S: Final = 6.0


@final
class ClusterOperator:
    """Requests cluster changes at random moments. At most one change is under way at a time."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self.moved = 0
        self._cluster = cluster
        self._chance: random.Random = cluster.simulation.stream("mover")

    async def run(self, seconds: float) -> None:
        """Request one change after another, for so many seconds."""
        loop = asyncio.get_running_loop()
        ends_at = loop.time() + seconds
        while loop.time() < ends_at:
            await asyncio.sleep(self._chance.expovariate(1 / CALM_S))
            if await self._ask(self._errand) and self._chance.random() < 0.4:
                await self._hurt()

    def _errand(self, hosts: Hosts) -> Coroutine[Any, Any, str]:
        one, other = self._chance.sample(self._cluster.numbers, 2)
        kind = self._chance.choice(("add", "add", "drain", "drain", "move", "lead", "lead", "factor", "spread"))
        self._cluster.simulation.trace.note("errand", kind, one, other)
        match kind:
            case "add":
                return hosts.add(one)
            case "drain":
                return hosts.drain(one)
            case "move":
                return hosts.move(one, other)
            case "lead":
                return hosts.lead(one)
            case "factor":
                return hosts.set_factor(self._chance.choice((2, 3, 3, 4)))
            case _:
                return hosts.spread()

    async def _ask(self, errand: Any) -> bool:
        leader = self._cluster.leader()
        if leader is None or leader.cluster_node is None:
            return False
        process = self._cluster.host(leader.cluster_node.place.node).process
        assert process is not None
        asked = process.start(errand(leader.cluster_node.hosts))
        waited: list[asyncio.Future[Any]] = [asked, process.ended]
        await asyncio.wait(waited, timeout=PATIENCE_S, return_when=asyncio.FIRST_COMPLETED)
        if not asked.done():
            return False
        error = asked.exception()
        if error is not None and not isinstance(error, LonghallError | PowerCut | OSError):
            raise error
        self._cluster.simulation.trace.note("errand", "refused" if error else asked.result())
        self.moved += error is None
        return error is None

    async def _hurt(self) -> None:
        """Kill the leader or any host: at once, or when the change is under way."""
        await asyncio.sleep(self._chance.choice((0.0, 0.01, 0.05, 0.2, 1.0)))
        leader = self._cluster.leader()
        number = leader.cluster_node.place.node if leader is not None and leader.cluster_node is not None else 0
        if not number or self._chance.random() < 0.5:
            number = self._chance.choice(self._cluster.numbers)
        host = self._cluster.host(number)
        if self._chance.random() < 0.7:
            host.kill()
        else:
            host.cut_power()

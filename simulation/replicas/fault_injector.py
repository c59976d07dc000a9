"""Injects faults into the nodes of a cluster, one after another or several at once, as the seed draws them.

Each fault starts and heals by itself; a menu lists the faults that may happen.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import final

from simulation.replicas.disk_faults import DiskFaults
from simulation.replicas.fault_target import FaultTarget
from simulation.replicas.history_faults import HistoryFaults
from simulation.replicas.host_faults import HostFaults
from simulation.replicas.link_faults import LinkFaults
from simulation.replicas.machine_faults import MachineFaults
from simulation.replicas.stranger_faults import StrangerFaults

Fault = Callable[[], Awaitable[None]]


@final
class ClusterFaults:
    """All faults of a cluster by name, and the loop that injects those of a menu."""

    def __init__(self, cluster: FaultTarget, menu: tuple[str, ...]) -> None:
        self.happened = 0
        self._trace = cluster.simulation.trace
        self._chance: random.Random = cluster.simulation.stream("faults")
        disks = self.disks = DiskFaults(cluster, self._chance)
        self.flips = disks.flips
        self._parts: list[HostFaults | LinkFaults | DiskFaults | HistoryFaults | MachineFaults | StrangerFaults] = [
            HostFaults(cluster, self._chance),
            LinkFaults(cluster, self._chance),
            disks,
            HistoryFaults(cluster, self._chance),
            MachineFaults(cluster, self._chance),
            StrangerFaults(cluster, self._chance),
        ]
        self._names = list(menu)
        self._running: list[asyncio.Task[None]] = []

    async def inject_faults(self, seconds: float, calm_s: float, *, at_once: bool = True) -> None:
        """Inject faults for so many seconds, about `calm_s` between two starts, or from the end of one to the
        start of the next.
        """
        loop = asyncio.get_running_loop()
        ends_at = loop.time() + seconds
        while True:
            await asyncio.sleep(min(self._chance.expovariate(1 / calm_s), max(ends_at - loop.time(), 0)))
            if loop.time() >= ends_at:
                break
            self._running.append(asyncio.ensure_future(self.strike(self._chance.choice(self._names))))
            if not at_once:
                await self._running[-1]
        await asyncio.gather(*self._running)

    async def strike(self, name: str) -> None:
        """Inject this fault, from its start to its end."""
        self._trace.note("fault", name)
        self.happened += 1
        await self._fault(name)()

    def heal(self) -> None:
        """Heal all faults."""
        for part in self._parts:
            part.heal()

    def _fault(self, name: str) -> Fault:
        (found,) = [getattr(part, name) for part in self._parts if hasattr(part, name)]
        fault: Fault = found
        return fault

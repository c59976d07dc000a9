"""Machines that are lost, rolled back or copied, and clocks that stop.

replaced_disk       a host comes back under its number with an empty disk
lost_host           a host never comes back; at most one in a run
rolled_back         the disk of a host is as it was a while ago, as after the restore of a volume snapshot
rolled_back_first   the same while no node runs, and that host starts first
copied              a copy of a directory is started on another machine while the original runs
stalled_clock       the monotonic clock of a host stops, and goes on from there or from where it would be
clock_ahead         the monotonic clock jumps ahead

Replacing or rolling back a disk removes one complete copy, so the fault waits until every replica is in sync.
"""

from __future__ import annotations

import asyncio
import random
from typing import Final, final

from simulation.replicas.fault_target import FaultTarget

STALLS_S: Final = (0.5, 2.0, 5.0, 15.0)
ROLLED_BACK_S: Final = (0.5, 3.0, 10.0)  # How far back.
COPY_S: Final = 8.0


@final
class MachineFaults:
    """The machine faults that a menu can name."""

    def __init__(self, cluster: FaultTarget, chance: random.Random) -> None:
        self._cluster = cluster
        self._nodes = cluster.numbers
        self._chance = chance

    def heal(self) -> None:
        """Start the stopped clocks; lost hosts stay lost."""
        for node in self._nodes:
            self._cluster.host(node).start_monotonic(catches_up=False)

    async def replaced_disk(self) -> None:
        await self._cluster.wait_until_settled()
        node = self._one()
        self._cluster.down.add(node)
        self._cluster.host(node).kill()
        self._cluster.host(node).replace_disk()
        await asyncio.sleep(self._chance.choice((0.0, 1.0, 6.0, 15.0)))
        self._cluster.down.discard(node)

    async def lost_host(self) -> None:
        if self._cluster.lost:
            return
        await self._cluster.wait_until_settled()
        node = self._one()
        self._cluster.lost.add(node)
        self._cluster.host(node).cut_power()

    async def rolled_back(self) -> None:
        node = self._one()
        await self._roll_back(node, [node])

    async def rolled_back_first(self) -> None:
        node = self._one()
        await self._roll_back(node, [node, *(other for other in self._there() if other != node)])

    async def _roll_back(self, node: int, stopped: list[int]) -> None:
        """Roll back the disk of a node while the `stopped` nodes are down; they start again in this order."""
        await self._cluster.wait_until_settled()
        host = self._cluster.host(node)
        earlier = host.platter.copy()
        await asyncio.sleep(self._chance.choice(ROLLED_BACK_S))
        await self._cluster.wait_until_settled()
        for one in stopped:
            self._cluster.down.add(one)
            self._cluster.host(one).kill()
        host.platter = earlier
        self._cluster.simulation.trace.note("rolled-back", host.name)
        await asyncio.sleep(self._chance.choice((0.0, 1.0, 6.0)))
        for one in stopped:
            self._cluster.down.discard(one)
            await asyncio.sleep(self._chance.choice((0.0, 1.0, 6.0)))

    async def copied(self) -> None:
        await self._cluster.wait_until_settled()
        await self._cluster.start_copy(self._one(), self._chance.uniform(1.0, COPY_S))

    async def stalled_clock(self) -> None:
        host = self._cluster.host(self._one())
        host.stop_monotonic()
        await asyncio.sleep(self._chance.choice(STALLS_S))
        host.start_monotonic(catches_up=self._chance.random() < 0.5)

    async def clock_ahead(self) -> None:
        self._cluster.host(self._one()).advance_monotonic(self._chance.choice(STALLS_S))

    def _there(self) -> list[int]:
        return [node for node in self._nodes if node not in self._cluster.lost]

    def _one(self) -> int:
        return self._chance.choice(self._there())

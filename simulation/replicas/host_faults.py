"""Hosts that die, lose power, stop and start again: one, whoever leads, all together, one after another."""

from __future__ import annotations

import asyncio
import random
from typing import Final, final

from simulation.disk import SYNC_MS
from simulation.replicas.fault_target import FaultTarget
from simulation.replicas.host_names import name_of

SLOW_MS: Final = (20.0, 400.0)


@final
class HostFaults:
    """See the module."""

    def __init__(self, cluster: FaultTarget, chance: random.Random) -> None:
        self._cluster = cluster
        self._nodes = cluster.numbers
        self._chance = chance

    def heal(self) -> None:
        """Nobody is kept down."""
        self._cluster.down.clear()

    async def kill_the_leader(self) -> None:
        self._cluster.host(self._leader()).kill()

    async def kill_one(self) -> None:
        await self._away(self._chance.choice(self._nodes), power=False)

    async def kill_a_ward(self) -> None:
        """A process that a host has beside its main one, alone."""
        side_processes = [
            process for node in self._nodes for process in self._cluster.host(node).side_processes.values()
        ]
        if side_processes:
            self._chance.choice(side_processes).kill()

    async def kill_all(self) -> None:
        for node in self._nodes:
            self._cluster.host(node).kill()

    async def power_cut(self) -> None:
        await self._away(self._chance.choice(self._nodes), power=True)

    async def power_cut_in_the_middle(self) -> None:
        faults = self._cluster.host(self._chance.choice(self._nodes)).faults
        faults.cut_after_changes = self._chance.choice((0, 1, 2, 3, 5, 10, 30, 100))
        await asyncio.sleep(self._chance.uniform(0.5, 5))
        faults.cut_after_changes = -1

    async def power_cut_of_all(self) -> None:
        for node in self._nodes:
            self._cluster.host(node).cut_power()

    async def power_cut_of_all_on_slow_disks(self) -> None:
        """Whoever answers before the disk is caught here: all disks but one are slow when the power fails."""
        quick = self._chance.choice(self._nodes)
        slow = [self._cluster.host(node).faults for node in self._nodes if node != quick]
        for faults in slow:
            faults.sync_ms = SLOW_MS
        await asyncio.sleep(self._chance.uniform(0.5, 3))
        for node in self._nodes:
            self._cluster.host(node).cut_power()
        for faults in slow:
            faults.sync_ms = SYNC_MS

    async def power_cut_without_the_leader(self) -> None:
        """The power fails while the disks of all followers are slow, and for a while the leader does not come back: its
        followers alone must have what was acknowledged.
        """
        leader = self._leader()
        slow = [self._cluster.host(node).faults for node in self._nodes if node != leader]
        for faults in slow:
            faults.sync_ms = SLOW_MS
        await asyncio.sleep(self._chance.uniform(0.5, 3))
        await self._cut_power_and_keep_away(leader)
        for faults in slow:
            faults.sync_ms = SYNC_MS
        await self._bring_back(leader)

    async def power_cut_after_failed_syncs(self) -> None:
        """The same behind syncs of the followers that fail now and then."""
        leader = self._leader()
        failing = [self._cluster.host(node).faults for node in self._nodes if node != leader]
        for faults in failing:
            faults.sync_error_chance = 0.2
        await asyncio.sleep(self._chance.uniform(0.2, 2))
        for faults in failing:
            faults.sync_error_chance = 0.0
        await self._cut_power_and_keep_away(leader)
        await self._bring_back(leader)

    async def leave_who_hears_least(self) -> None:
        """A follower hears nothing from the leader for a moment; then all others die, and stay away for a while."""
        await self._leave_unheard(self._leader(), self._chance.uniform(0.2, 1.5))

    async def leave_who_is_counted_out(self) -> None:
        """The same, when the leader would have had it off the record by then, but does not reach the coordinator."""
        leader = self._leader()
        self._cluster.cut_coordinator(leader)
        await self._leave_unheard(leader, self._chance.uniform(2.0, 3.5))
        self._cluster.heal_coordinator(leader)

    async def _leave_unheard(self, leader: int, seconds: float) -> None:
        fabric = self._cluster.simulation.fabric
        left = self._chance.choice([node for node in self._nodes if node != leader])
        others = [node for node in self._nodes if node != left]
        fabric.cut(name_of(leader), name_of(left))
        await asyncio.sleep(seconds)
        self._cluster.down.update(others)
        for node in others:
            self._cluster.host(node).kill()
        fabric.heal(name_of(leader), name_of(left))
        await self._bring_back(*others)

    async def kill_in_quick_succession(self) -> None:
        """A leader, and then the next one before it has told anybody."""
        for _ in range(3):
            self._cluster.host(self._leader()).kill()
            await asyncio.sleep(self._chance.choice((0.3, 3.2, 3.5, 4.0)))

    async def restart_one_after_another(self) -> None:
        """As for a new version."""
        for node in self._nodes:
            await self._cluster.stop(node)
            await asyncio.sleep(self._chance.choice((0.5, 2.0, 4.0)))

    async def stop_cleanly(self) -> None:
        await self._cluster.stop(self._chance.choice(self._nodes))

    async def pause_the_leader(self) -> None:
        await self._pause(self._leader())

    async def pause_one(self) -> None:
        await self._pause(self._chance.choice(self._nodes))

    async def _pause(self, node: int) -> None:
        resume = self._cluster.pause(node)
        if resume is not None:
            await asyncio.sleep(self._chance.choice((0.3, 1.0, 2.5, 4.0, 8.0)))
            resume()

    async def _away(self, node: int, *, power: bool) -> None:
        """Gone for a while: back at once, before its session ends, or long after."""
        self._cluster.down.add(node)
        host = self._cluster.host(node)
        if power:
            host.cut_power()
        else:
            host.kill()
        await asyncio.sleep(self._chance.choice((0.0, 0.5, 2.0, 6.0, 15.0)))
        self._cluster.down.discard(node)

    async def _cut_power_and_keep_away(self, node: int) -> None:
        """Of all, and this one stays away."""
        self._cluster.down.add(node)
        await self.power_cut_of_all()

    async def _bring_back(self, *nodes: int) -> None:
        """After somebody else has had time to lead."""
        await asyncio.sleep(self._chance.choice((6.0, 12.0)))
        self._cluster.down.difference_update(nodes)

    def _leader(self) -> int:
        return self._cluster.leader_number() or self._chance.choice(self._nodes)

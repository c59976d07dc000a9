"""Hosts that die, lose power, stop and start again: one host, the leader, all together, one after another."""

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
    """The host faults that a menu can name; each method stops hosts and starts them again."""

    def __init__(self, cluster: FaultTarget, chance: random.Random) -> None:
        self._cluster = cluster
        self._nodes = cluster.numbers
        self._chance = chance

    def heal(self) -> None:
        """Let all hosts start again."""
        self._cluster.down.clear()

    async def kill_the_leader(self) -> None:
        self._cluster.host(self._leader()).kill()

    async def kill_one(self) -> None:
        await self._away(self._chance.choice(self._nodes), power=False)

    async def kill_a_ward(self) -> None:
        """Kill one wing process of a host."""
        side_processes = [
            process for node in self._nodes for process in self._cluster.host(node).side_processes.values()
        ]
        if side_processes:
            self._chance.choice(side_processes).kill()

    async def kill_between_outcome_and_markers(self) -> None:
        """Kill the wing processes of a host, and a moment later the leader of the hall: the transactions that it has
        decided in between have no markers in these wings.
        """
        leader = self._leader()
        other = self._chance.choice([node for node in self._nodes if node != leader])
        for process in list(self._cluster.host(other).side_processes.values()):
            process.kill()
        await asyncio.sleep(self._chance.uniform(0.2, 1.2))
        self._cluster.host(leader).kill()

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
        """Cut the power of all while all disks but one are slow: a node that answers before its sync is found."""
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
        """Cut the power while the disks of all followers are slow, and keep the leader away for a while.

        The followers alone must have what was acknowledged.
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
        """The same after syncs of the followers that fail at times."""
        leader = self._leader()
        failing = [self._cluster.host(node).faults for node in self._nodes if node != leader]
        for faults in failing:
            faults.sync_error_chance = 0.6
        await asyncio.sleep(self._chance.uniform(0.2, 2))
        for faults in failing:
            faults.sync_error_chance = 0.0
        await self._cut_power_and_keep_away(leader)
        await self._bring_back(leader)

    async def leave_who_hears_least(self) -> None:
        """Cut a follower off from the leader for a moment, then kill all others and keep them away for a while."""
        await self._leave_unheard(self._leader(), self._chance.uniform(0.2, 1.5))

    async def leave_who_is_counted_out(self) -> None:
        """The same, long enough that the leader would remove the follower from the in-sync set, but cannot reach
        the coordinator.
        """
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
        """Kill a leader, and the next one before it has replicated anything."""
        for _ in range(3):
            self._cluster.host(self._leader()).kill()
            await asyncio.sleep(self._chance.choice((0.3, 3.2, 3.5, 4.0)))

    async def restart_one_after_another(self) -> None:
        """Restart all nodes in turn, as in a rolling upgrade."""
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
        """Keep a node away: for a moment, for less than its session, or for long after."""
        self._cluster.down.add(node)
        host = self._cluster.host(node)
        if power:
            host.cut_power()
        else:
            host.kill()
        await asyncio.sleep(self._chance.choice((0.0, 0.5, 2.0, 6.0, 15.0)))
        self._cluster.down.discard(node)

    async def _cut_power_and_keep_away(self, node: int) -> None:
        """Cut the power of all, and keep this node away."""
        self._cluster.down.add(node)
        await self.power_cut_of_all()

    async def _bring_back(self, *nodes: int) -> None:
        """Start the nodes after another one has had time to lead."""
        await asyncio.sleep(self._chance.choice((6.0, 12.0)))
        self._cluster.down.difference_update(nodes)

    def _leader(self) -> int:
        return self._cluster.leader_number() or self._chance.choice(self._nodes)

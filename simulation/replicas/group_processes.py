"""The wing processes of a simulated cluster: on every host, one for each wing with a replica there.

As in the product, the main process of a host learns of wings and starts their processes; they end with it and start
again after it. The nodes of one wing are a simulated cluster of their own, observed like the main one.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Final, final

import msgspec

from longhall.broker.hall import Hall
from longhall.coordination.ports import ReplicationGroup
from longhall.node.assembly import Node
from simulation.checkers.violation import demand
from simulation.replicas.host_names import name_of
from simulation.replicas.simulated_cluster import SimulatedCluster

LOOK_S: Final = 0.1
LOOKS_S: Final = (0.0, 0.0, 0.0, 5.0, 60.0)  # Interval at which a reconciler compares.


@final
class GroupProcesses:
    """Starts and stops the wing processes of all hosts, as their main processes want them."""

    def __init__(self, main: SimulatedCluster) -> None:
        self.wings: dict[str, SimulatedCluster] = {}
        self._main = main
        self._chance = main.simulation.stream("wards")
        self._wanted: dict[int, dict[str, ReplicationGroup]] = {}  # By host number.
        main.group_processes = self

    def mind(self, number: int, node: Node) -> None:
        """The main process of a host has started to serve."""
        cluster_node = node.cluster_node
        assert cluster_node is not None
        assert cluster_node.group_directory is not None
        cluster_node.group_directory.on_wings = partial(self._want, number)
        cluster_node.group_directory.look_s = self._chance.choice(LOOKS_S)
        cluster_node.group_directory.start()
        door = node.doors.sqs.door
        # Names that are used again at once are what the reconciler may stumble over.
        door.limits = msgspec.structs.replace(door.limits, name_reuse_ms=0)

    def _want(self, node: int, wings: list[ReplicationGroup]) -> None:
        self._wanted[node] = {wing.name: wing for wing in wings}

    def gone(self, node: int) -> None:
        """The main process of a host has ended, and its wing processes with it."""
        self._wanted.pop(node, None)

    def wants(self, node: int, wing: str) -> bool:
        """True if the host's main process wants a process of this wing."""
        return wing in self._wanted.get(node, {}) and not self._main.zookeeper.paused(name_of(node))

    async def look(self) -> None:
        """Start the simulated clusters of new wings, for the whole run."""
        while True:
            known = {name: wing for wings in self._wanted.values() for name, wing in wings.items()}
            for name in sorted(known.keys() - self.wings.keys()):
                cluster = self.wings[name] = SimulatedCluster(self._main.simulation, wing=known[name], main=self._main)
                cluster.start()
                self._main.tasks.extend(cluster.tasks)
            await asyncio.sleep(LOOK_S)

    async def stop(self, node: int) -> None:
        """Stop all wing processes of a host cleanly."""
        self.gone(node)
        await asyncio.gather(*(cluster.stop(node) for cluster in self.wings.values()))

    async def up(self, seconds: float) -> None:
        """Wait at most so long until every wing has a leader and all its nodes are in sync."""
        ends_s = asyncio.get_running_loop().time() + seconds
        for cluster in list(self.wings.values()):
            await cluster.up(ends_s - asyncio.get_running_loop().time())

    async def at_home(self, seconds: float) -> None:
        """Wait at most so long until every wing is led by its preferred host."""
        loop = asyncio.get_running_loop()
        ends_s = loop.time() + seconds
        for name, cluster in list(self.wings.items()):
            assert cluster.wing is not None
            while cluster.leader_number() != self._preferred(cluster.wing):
                demand(
                    loop.time() < ends_s,
                    f"the wing {name} is not led by its preferred host after {seconds} s: {cluster.stand()}",
                )
                await asyncio.sleep(LOOK_S)

    def _preferred(self, wing: ReplicationGroup) -> int:
        """The host that should lead a wing by now: the balancer may have chosen another than at the start."""
        wanted = [wings[wing.name] for wings in self._wanted.values() if wing.name in wings]
        return max(wanted, key=lambda one: one.version, default=wing).hosts[0]

    def leading_hall(self, number: int) -> Hall | None:
        """The hall of the process that leads the wing with this number; None while none leads it."""
        for cluster in self.wings.values():
            if cluster.wing is not None and cluster.wing.number == number:
                leader = cluster.leader()
                return leader.hall if leader is not None else None
        return None

    async def check_copies(self) -> None:
        """Check the replicas of every wing: see `NodeObserver.check_copies`."""
        for cluster in list(self.wings.values()):
            await cluster.watch.check_copies()

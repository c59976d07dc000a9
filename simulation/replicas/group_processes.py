"""Wings of a simulated cluster: on every host, beside its main process, one for each wing that is to be there.

As in the real world the main process of a host hears of wings and says which it wants; its wards end with it, and are
there again when it is and has heard. The nodes of one wing are a fleet of their own, watched like the main one.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Final, final

from longhall.coordination.ports import ReplicationGroup
from longhall.node.assembly import Node
from simulation.checkers.violation import demand
from simulation.replicas.host_names import name_of
from simulation.replicas.simulated_cluster import SimulatedCluster

LOOK_S: Final = 0.1
LOOKS_S: Final = (0.0, 0.0, 0.0, 5.0, 60.0)  # How often a reconciler compares.


@final
class GroupProcesses:
    """See the module."""

    def __init__(self, main: SimulatedCluster) -> None:
        self.wings: dict[str, SimulatedCluster] = {}
        self._main = main
        self._chance = main.simulation.stream("wards")
        self._wanted: dict[int, dict[str, ReplicationGroup]] = {}  # By host.
        main.group_processes = self

    def mind(self, number: int, node: Node) -> None:
        """The main process of a host has begun to serve."""
        cluster_node = node.cluster_node
        assert cluster_node is not None
        assert cluster_node.group_directory is not None
        cluster_node.group_directory.on_wings = partial(self._want, number)
        cluster_node.group_directory.look_s = self._chance.choice(LOOKS_S)
        cluster_node.group_directory.start()
        node._sqs.door.reuse_ms = 0  # Names that are used again at once are what the reconciler may stumble over.

    def _want(self, node: int, wings: list[ReplicationGroup]) -> None:
        self._wanted[node] = {wing.name: wing for wing in wings}

    def gone(self, node: int) -> None:
        """The main process of a host has ended, and with it everything there."""
        self._wanted.pop(node, None)

    def wants(self, node: int, wing: str) -> bool:
        """Whether this wing may have a process there now."""
        return wing in self._wanted.get(node, {}) and not self._main.zookeeper.paused(name_of(node))

    async def look(self) -> None:
        """Wings that are heard of for the first time begin."""
        while True:
            known = {name: wing for wings in self._wanted.values() for name, wing in wings.items()}
            for name in sorted(known.keys() - self.wings.keys()):
                cluster = self.wings[name] = SimulatedCluster(self._main.simulation, wing=known[name], main=self._main)
                cluster.start()
                self._main.tasks.extend(cluster.tasks)
            await asyncio.sleep(LOOK_S)

    async def stop(self, node: int) -> None:
        """All of a host, cleanly."""
        self.gone(node)
        await asyncio.gather(*(cluster.stop(node) for cluster in self.wings.values()))

    async def up(self, seconds: float) -> None:
        """Within this time every wing is led, and all of its nodes are in sync."""
        ends_s = asyncio.get_running_loop().time() + seconds
        for cluster in list(self.wings.values()):
            await cluster.up(ends_s - asyncio.get_running_loop().time())

    async def at_home(self, seconds: float) -> None:
        """Within this time every wing is led by the host that it prefers."""
        loop = asyncio.get_running_loop()
        ends_s = loop.time() + seconds
        for name, cluster in list(self.wings.items()):
            assert cluster.wing is not None
            while cluster.leader_number() != cluster.wing.hosts[0]:
                demand(loop.time() < ends_s, f"the wing {name} is not led at home after {seconds} s: {cluster.stand()}")
                await asyncio.sleep(LOOK_S)

    async def check_copies(self) -> None:
        """See `NodeObserver`."""
        for cluster in list(self.wings.values()):
            await cluster.watch.check_copies()

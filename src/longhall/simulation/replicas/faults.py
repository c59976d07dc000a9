"""What goes wrong with members of a cluster: hosts die, stop and come back, links are cut, disks stall, clocks jump.

Each fault begins and heals by itself, and several may overlap.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Final, Protocol, final

from longhall.simulation.disk import SYNC_MS
from longhall.simulation.replicas.node import NODES, name_of
from longhall.simulation.world import Host, Simulation

SLOW_MS: Final = (20.0, 400.0)
STUCK_MS: Final = (2_500.0, 4_000.0)
ALL_MENU: Final = (
    "kill_the_leader",
    "kill_one",
    "kill_all",
    "power_cut",
    "power_cut_in_the_middle",
    "power_cut_of_all",
    "power_cut_of_all_on_slow_disks",
    "pause_the_leader",
    "pause_one",
    "cut_the_leader_from_followers",
    "cut_one_way",
    "cut_off",
    "cut_from_the_coordinator",
    "lose_words_of_the_coordinator",
    "reset",
    "slow_disk",
    "stuck_disk",
    "failed_sync",
    "stop_cleanly",
    "clock_jump",
    "kill_in_quick_succession",
)

Fault = Callable[[], Awaitable[None]]


class Breakable(Protocol):
    """Several nodes and their coordinator, as far as faults need them."""

    simulation: Simulation
    down: set[int]  # Kept down on purpose.

    def host(self, node: int) -> Host:
        """The machine of a node."""

    def leader_number(self) -> int:
        """The node that is on record as leader; 0 for none."""

    def cut_coordinator(self, node: int) -> None:
        """Nothing between this node and the coordinator."""

    def heal_coordinator(self, node: int) -> None:
        """Likewise."""

    def lose_words(self, chance: float) -> None:
        """So many calls to the coordinator get lost, before or after they were done."""

    def pause(self, node: int) -> Callable[[], None] | None:
        """As SIGSTOP does; returns what lets it go on. None if it is not running."""

    async def stop(self, node: int) -> None:
        """Stop it cleanly, if it is running; it is started again."""

    async def wait_until_settled(self) -> None:
        """Everybody is in sync."""


@final
class Faults:
    """See the module."""

    def __init__(self, cluster: Breakable, menu: tuple[str, ...] = ALL_MENU) -> None:
        self.happened = 0
        self._cluster = cluster
        self._simulation = cluster.simulation
        self._chance: random.Random = cluster.simulation.stream("faults")
        self._menu: list[Fault] = [getattr(self, f"_{name}") for name in menu]
        self._names = list(menu)
        self._running: list[asyncio.Task[None]] = []

    async def rage(self, seconds: float, calm_s: float, *, at_once: bool = True) -> None:
        """Break things for so long, with about `calm_s` between two beginnings, or from the end of one to the next."""
        loop = asyncio.get_running_loop()
        ends_at = loop.time() + seconds
        while True:
            await asyncio.sleep(min(self._chance.expovariate(1 / calm_s), max(ends_at - loop.time(), 0)))
            if loop.time() >= ends_at:
                break
            at = self._chance.randrange(len(self._menu))
            self._simulation.trace.note("fault", self._names[at])
            self._running.append(asyncio.ensure_future(self._run(self._menu[at])))
            self.happened += 1
            if not at_once:
                await self._running[-1]
        await asyncio.gather(*self._running)

    async def _run(self, fault: Fault) -> None:
        await fault()

    def heal(self) -> None:
        """Nothing is broken any more."""
        fabric = self._simulation.fabric
        for one in NODES:
            faults = self._cluster.host(one).faults
            faults.sync_ms = SYNC_MS
            faults.sync_error_chance = 0.0
            faults.cut_after_changes = -1
            for other in NODES:
                fabric.heal(name_of(one), name_of(other))
            self._cluster.heal_coordinator(one)
        self._cluster.lose_words(0.0)
        self._cluster.down.clear()

    # Hosts

    async def _kill_the_leader(self) -> None:
        self._cluster.host(self._leader()).kill()

    async def _kill_one(self) -> None:
        await self._away(self._chance.choice(NODES), power=False)

    async def _kill_all(self) -> None:
        for node in NODES:
            self._cluster.host(node).kill()

    async def _power_cut(self) -> None:
        await self._away(self._chance.choice(NODES), power=True)

    async def _power_cut_in_the_middle(self) -> None:
        faults = self._cluster.host(self._chance.choice(NODES)).faults
        faults.cut_after_changes = self._chance.choice((0, 1, 2, 3, 5, 10, 30, 100))
        await asyncio.sleep(self._chance.uniform(0.5, 5))
        faults.cut_after_changes = -1

    async def _power_cut_of_all(self) -> None:
        for node in NODES:
            self._cluster.host(node).cut_power()

    async def _power_cut_of_all_on_slow_disks(self) -> None:
        """Whoever answers before the disk is caught here: all disks but one are slow when the power fails."""
        quick = self._chance.choice(NODES)
        slow = [self._cluster.host(node).faults for node in NODES if node != quick]
        for faults in slow:
            faults.sync_ms = SLOW_MS
        await asyncio.sleep(self._chance.uniform(0.5, 3))
        for node in NODES:
            self._cluster.host(node).cut_power()
        for faults in slow:
            faults.sync_ms = SYNC_MS

    async def _kill_in_quick_succession(self) -> None:
        """A leader, and then the next one before it has told anybody."""
        for _ in range(3):
            self._cluster.host(self._leader()).kill()
            await asyncio.sleep(self._chance.choice((0.3, 3.2, 3.5, 4.0)))

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

    async def _stop_cleanly(self) -> None:
        await self._cluster.stop(self._chance.choice(NODES))

    async def _pause_the_leader(self) -> None:
        await self._pause(self._leader())

    async def _pause_one(self) -> None:
        await self._pause(self._chance.choice(NODES))

    async def _pause(self, node: int) -> None:
        resume = self._cluster.pause(node)
        if resume is not None:
            await asyncio.sleep(self._chance.choice((0.3, 1.0, 2.5, 4.0, 8.0)))
            resume()

    async def _damage(self) -> None:
        """A bit flips in the log or in a snapshot of one host, which then starts anew; the others are well."""
        cluster = self._cluster
        await cluster.wait_until_settled()
        host = cluster.host(self._chance.choice(NODES))
        room = "wal" if self._chance.random() < 0.7 else "shards"
        written = [
            inode for path, inode in host.platter.inodes() if path.lstrip("/").startswith(room) and inode.content
        ]
        if written:
            inode = self._chance.choice(written)
            inode.flip(self._chance.randrange(len(inode.content)), 1 << self._chance.randrange(8))
        host.kill()

    # Links

    async def _cut_the_leader_from_followers(self) -> None:
        leader = self._leader()
        await self._cut([(leader, other) for other in NODES if other != leader])

    async def _cut_one_way(self) -> None:
        one, other = self._chance.sample(NODES, 2)
        await self._cut([(one, other)], both=False)

    async def _cut_off(self) -> None:
        """From everybody, the coordinator included."""
        node = self._chance.choice(NODES)
        self._cluster.cut_coordinator(node)
        await self._cut([(node, other) for other in NODES if other != node])
        self._cluster.heal_coordinator(node)

    async def _cut(self, pairs: list[tuple[int, int]], *, both: bool = True) -> None:
        fabric = self._simulation.fabric
        links = [(name_of(one), name_of(other)) for one, other in pairs]
        if both:
            links += [(other, one) for one, other in links]
        for one, other in links:
            fabric.cut(one, other)
        await asyncio.sleep(self._chance.choice((0.5, 1.0, 2.5, 5.0, 10.0)))
        for one, other in links:
            fabric.heal(one, other)

    async def _reset(self) -> None:
        self._simulation.fabric.reset(name_of(self._chance.choice(NODES)), 0.5)

    async def _cut_from_the_coordinator(self) -> None:
        node = self._leader() if self._chance.random() < 0.5 else self._chance.choice(NODES)
        self._cluster.cut_coordinator(node)
        await asyncio.sleep(self._chance.choice((1.0, 4.0, 8.0)))
        self._cluster.heal_coordinator(node)

    async def _lose_words_of_the_coordinator(self) -> None:
        self._cluster.lose_words(0.3)
        await asyncio.sleep(self._chance.uniform(1, 10))
        self._cluster.lose_words(0.0)

    # Disks and clocks

    async def _slow_disk(self) -> None:
        await self._disk(SLOW_MS)

    async def _stuck_disk(self) -> None:
        await self._disk(STUCK_MS)

    async def _disk(self, sync_ms: tuple[float, float]) -> None:
        faults = self._cluster.host(self._chance.choice(NODES)).faults
        faults.sync_ms = sync_ms
        await asyncio.sleep(self._chance.uniform(1, 6))
        faults.sync_ms = SYNC_MS

    async def _failed_sync(self) -> None:
        faults = self._cluster.host(self._chance.choice(NODES)).faults
        faults.sync_error_chance = 0.2
        await asyncio.sleep(self._chance.uniform(0.2, 2))
        faults.sync_error_chance = 0.0

    async def _clock_jump(self) -> None:
        host = self._cluster.host(self._chance.choice(NODES))
        host.clock_offset_ms += self._chance.choice((-3_600_000, -1_000, 1_000, 3_600_000))

    def _leader(self) -> int:
        return self._cluster.leader_number() or self._chance.choice(NODES)

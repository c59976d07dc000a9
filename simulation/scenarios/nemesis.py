"""The faults of a single node, one after another, in an order and at moments that the seed draws.

Each fault starts and heals by itself. After `heal` no fault is active and the machine must come up.
"""

from __future__ import annotations

import asyncio
import errno
import random
from collections.abc import Awaitable, Callable
from typing import Final, final

from simulation.disk import SYNC_MS
from simulation.scenarios.machine import NODE, Machine
from simulation.scenarios.run_context import CLIENTS
from simulation.wal_tail import last_frame
from simulation.world import Simulation

SLOW_MS: Final = (20.0, 300.0)

Fault = Callable[[], Awaitable[None]]


@final
class Nemesis:
    """Injects faults into one machine. `menu` lists the faults that may happen in this run."""

    def __init__(self, simulation: Simulation, machine: Machine, menu: list[str]) -> None:
        self._simulation = simulation
        self._machine = machine
        self._chance: random.Random = simulation.stream("nemesis")
        self._faults: list[Fault] = [getattr(self, f"_{name}") for name in menu]
        self.happened = 0

    async def inject_faults(self, seconds: float, calm_s: float) -> None:
        """Inject faults for so many seconds, with about `calm_s` between two of them."""
        loop = asyncio.get_running_loop()
        ends_at = loop.time() + seconds
        while True:
            await asyncio.sleep(min(self._chance.expovariate(1 / calm_s), max(ends_at - loop.time(), 0)))
            if loop.time() >= ends_at:
                return
            await self._chance.choice(self._faults)()
            self.happened += 1

    def heal(self) -> None:
        self._machine.host.faults.heal()
        for pair in ((NODE, CLIENTS), (CLIENTS, NODE)):
            self._simulation.fabric.heal(*pair)

    async def _power_cut(self) -> None:
        self._machine.host.cut_power()

    async def _power_cut_on_a_slow_disk(self) -> None:
        """Cut the power while the disk is slow: a node that does not wait for its syncs is found."""
        faults = self._machine.host.faults
        faults.sync_ms = SLOW_MS
        await asyncio.sleep(self._chance.uniform(0.5, 3))
        self._machine.host.cut_power()
        faults.sync_ms = SYNC_MS

    async def _power_cut_in_the_middle(self) -> None:
        """Cut the power at one of the next changes of the disk, wherever the code is then; also during recovery."""
        self._machine.host.faults.cut_after_changes = self._chance.choice((0, 1, 2, 3, 5, 10, 30, 100, 300))
        await asyncio.sleep(self._chance.uniform(0.5, 5))
        self._machine.host.faults.cut_after_changes = -1

    async def _kill(self) -> None:
        self._machine.host.kill()

    async def _kill_twice(self) -> None:
        for _ in range(2):
            self._machine.host.kill()
            await asyncio.sleep(self._chance.uniform(0.05, 1.0))

    async def _stop_cleanly(self) -> None:
        await self._machine.stop()

    async def _sync_error(self) -> None:
        faults = self._machine.host.faults
        faults.sync_error_chance = self._chance.choice((0.01, 0.3, 1.0))
        await asyncio.sleep(self._chance.uniform(0.1, 3))
        faults.sync_error_chance = 0.0

    async def _disk_full(self) -> None:
        """Leave little or no free space, for some seconds."""
        faults = self._machine.host.faults
        used = self._machine.host.platter.used()
        faults.capacity_bytes = used + self._chance.choice((0, 1, 500, 10_000, 200_000))
        await asyncio.sleep(self._chance.uniform(1, 10))
        faults.capacity_bytes = None

    async def _failed_reads(self) -> None:
        """Fail reads, at random or a few in a row: of a running node, or of one that has just died and recovers."""
        faults = self._machine.host.faults
        if self._chance.random() < 0.5:
            faults.read_error_chance = self._chance.choice((0.01, 0.1, 0.3, 1.0))
        else:
            faults.read_errors = self._chance.choice((1, 1, 3, 20))
            faults.reads_before_errors = self._chance.randrange(12)
        if self._chance.random() < 0.6:
            self._machine.host.kill()
        await asyncio.sleep(self._chance.uniform(0.1, 3))
        faults.read_error_chance = 0.0
        faults.read_errors = 0

    async def _nothing_new(self) -> None:
        """Let no file or directory be created for a while; existing files accept writes."""
        faults = self._machine.host.faults
        faults.create_errno = self._chance.choice((errno.ENOSPC, errno.EIO, errno.EMFILE))
        await asyncio.sleep(self._chance.uniform(1, 10))
        faults.create_errno = 0

    async def _cut(self) -> None:
        pairs = [(NODE, CLIENTS), (CLIENTS, NODE)]
        cut = self._chance.choice((pairs, pairs[:1], pairs[1:]))
        for pair in cut:
            self._simulation.fabric.cut(*pair)
        await asyncio.sleep(self._chance.choice((0.1, 1.0, 5.0, 20.0)))
        for pair in cut:
            self._simulation.fabric.heal(*pair)

    async def _resets(self) -> None:
        for _ in range(self._chance.randint(1, 4)):
            self._simulation.fabric.reset(NODE, self._chance.choice((0.3, 1.0)))
            await asyncio.sleep(self._chance.uniform(0.0, 0.5))

    async def _flip(self) -> None:
        """Flip one bit of an index, or of a segment that is not the newest of its partition."""
        segments: dict[str, list[str]] = {}
        inodes = dict(self._machine.host.platter.inodes())
        for path in inodes:
            if path.startswith("partitions/") and inodes[path].content:
                directory, _, name = path.rpartition("/")
                segments.setdefault(directory + name[-4:], []).append(path)
        paths = sorted(path for group in segments.values() for path in sorted(group)[:-1])
        if paths:
            inode = inodes[self._chance.choice(paths)]
            inode.flip(self._chance.randrange(len(inode.content)), 1 << self._chance.randrange(8))

    async def _rot_the_tail(self) -> None:
        """Flip one bit of the log's last frame, which may have been acknowledged, before the node starts again."""
        self._machine.host.kill()
        found = last_frame(self._machine.host.platter)
        if found is not None:
            inode, begin, behind = found
            inode.flip(self._chance.randrange(begin, behind), 1 << self._chance.randrange(8))

    async def _clock_jump(self) -> None:
        jump_ms = self._chance.choice((-3_600_000, -5_000, 5_000, 60_000))
        self._machine.host.clock_offset_ms += jump_ms
        await asyncio.sleep(self._chance.uniform(1, 20))
        self._machine.host.clock_offset_ms -= jump_ms


EVERYTHING = [
    "power_cut",
    "power_cut_on_a_slow_disk",
    "power_cut_in_the_middle",
    "power_cut_in_the_middle",
    "kill",
    "kill_twice",
    "stop_cleanly",
    "sync_error",
    "disk_full",
    "cut",
    "resets",
    "clock_jump",
]

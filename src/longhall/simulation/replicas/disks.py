"""Disks that are slow, stuck, full, that fail or forget a bit; and clocks that somebody sets."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Final, final

from longhall.simulation.disk import SYNC_MS
from longhall.simulation.replicas.breakable import Breakable
from longhall.simulation.replicas.flips import Flips
from longhall.simulation.replicas.hosts import SLOW_MS
from longhall.simulation.tails import last_frame
from longhall.simulation.world import Host

STUCK_MS: Final = (2_500.0, 4_000.0)


@final
class DiskFaults:
    """See the module."""

    def __init__(self, cluster: Breakable, chance: random.Random) -> None:
        self._cluster = cluster
        self._nodes = cluster.numbers
        self._chance = chance
        self.flips = Flips()

    def heal(self) -> None:
        """All disks are well; clocks stay as they are."""
        for node in self._nodes:
            faults = self._cluster.host(node).faults
            faults.sync_ms = SYNC_MS
            faults.sync_error_chance = 0.0
            faults.cut_after_changes = -1
            faults.capacity_bytes = None

    async def slow_disk(self) -> None:
        await self._slow(SLOW_MS)

    async def stuck_disk(self) -> None:
        await self._slow(STUCK_MS)

    async def _slow(self, sync_ms: tuple[float, float]) -> None:
        faults = self._one().faults
        faults.sync_ms = sync_ms
        await asyncio.sleep(self._chance.uniform(1, 6))
        faults.sync_ms = SYNC_MS

    async def failed_sync(self) -> None:
        faults = self._one().faults
        faults.sync_error_chance = 0.2
        await asyncio.sleep(self._chance.uniform(0.2, 2))
        faults.sync_error_chance = 0.0

    async def full_disk(self) -> None:
        """Little or no room is left, for some seconds; then somebody makes room."""
        host = self._one()
        host.faults.capacity_bytes = host.platter.used() + self._chance.choice((0, 500, 10_000, 200_000))
        await asyncio.sleep(self._chance.uniform(1, 8))
        host.faults.capacity_bytes = None

    async def damage(self) -> None:
        """A bit flips in the log or in a snapshot of one host, which then starts anew; the others are well."""
        await self._cluster.wait_until_settled()
        host = self._one()
        room = "wal" if self._chance.random() < 0.7 else "shards"
        self.flip(host, lambda path: path.startswith(room))
        host.kill()

    async def damage_the_tail(self) -> None:
        """A bit flips in the last frame of the log of one host, which then starts anew."""
        await self._cluster.wait_until_settled()
        host = self._one()
        host.kill()
        found = last_frame(host.platter)
        if found is not None:
            inode, begin, behind = found
            position, bit = self._chance.randrange(begin, behind), 1 << self._chance.randrange(8)
            inode.flip(position, bit)
            self._cluster.simulation.trace.note("flip the tail", host.name, position, bit)

    async def damage_a_segment(self) -> None:
        """A bit flips in what was written to a partition of one host long ago."""
        await self._cluster.wait_until_settled()
        host = self._one()
        newest = newest_segments(host)
        self.flip(host, lambda path: path.startswith("partitions") and path.endswith(".log") and path not in newest)

    def flip(self, host: Host, is_meant: Callable[[str], bool]) -> None:
        """One bit of one of these files."""
        named = [(path.lstrip("/"), inode) for path, inode in host.platter.inodes()]
        written = [(path, inode) for path, inode in named if is_meant(path) and inode.content]
        if written:
            path, inode = self._chance.choice(written)
            position, bit = self._chance.randrange(len(inode.content)), 1 << self._chance.randrange(8)
            if path.endswith(".log"):
                self.flips.note(host.name, path, bytes(inode.content), position)
            inode.flip(position, bit)
            self._cluster.simulation.trace.note("flip", host.name, path, position, bit)

    async def clock_jump(self) -> None:
        self._one().clock_offset_ms += self._chance.choice((-3_600_000, -1_000, 1_000, 3_600_000))

    def _one(self) -> Host:
        return self._cluster.host(self._chance.choice(self._nodes))


def newest_segments(host: Host) -> set[str]:
    """Of each partition: what is still being written."""
    newest: dict[str, str] = {}
    for path, _ in host.platter.inodes():
        directory, _, name = path.lstrip("/").rpartition("/")
        if name.endswith(".log"):
            newest[directory] = max(newest.get(directory, ""), f"{directory}/{name}")
    return set(newest.values())

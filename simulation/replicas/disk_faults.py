"""Faults of disks and clocks: slow, stuck, full or failing disks, flipped bits, lost and misdirected writes; clock
changes.

Only one host of a run loses or misdirects writes: the others are the majority with a complete copy.
"""

from __future__ import annotations

import asyncio
import errno
import random
from collections.abc import Callable
from typing import Final, final

from simulation.disk import SYNC_MS
from simulation.replicas.damaged_messages import DamagedMessages
from simulation.replicas.fault_target import FaultTarget
from simulation.replicas.host_faults import SLOW_MS
from simulation.wal_tail import last_frame
from simulation.world import Host

STUCK_MS: Final = (2_500.0, 4_000.0)
LAST_BYTES: Final = 8_000
NOTHING_NEW: Final = (errno.ENOSPC, errno.EIO, errno.EMFILE)  # No inodes, a bad disk, too many open files.


@final
class DiskFaults:
    """The disk faults that a menu can name; each method starts a fault and ends it."""

    def __init__(self, cluster: FaultTarget, chance: random.Random) -> None:
        self._cluster = cluster
        self._nodes = cluster.numbers
        self._chance = chance
        self.flips = DamagedMessages()
        self._liar = cluster.simulation.stream("liar").choice(cluster.numbers)

    def heal(self) -> None:
        """Heal all disks; clocks stay as they are."""
        for node in self._nodes:
            self._cluster.host(node).faults.heal()

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

    async def restart_with_failing_reads(self) -> None:
        """Stop a follower cleanly and let its disk fail some reads after the restart.

        A follower reads each partition when it first appends to it.
        """
        followers = [node for node in self._nodes if node != self._cluster.leader_number()]
        node = self._chance.choice(followers)
        await self._cluster.stop(node)
        await asyncio.sleep(self._chance.uniform(0.0, 2.0))
        faults = self._cluster.host(node).faults
        faults.read_error_chance = self._chance.choice((0.1, 0.3, 0.6))
        await asyncio.sleep(self._chance.uniform(0.5, 4.0))
        faults.read_error_chance = 0.0

    async def full_disk(self) -> None:
        """Leave little or no free space, for some seconds."""
        host = self._one()
        host.faults.capacity_bytes = host.platter.used() + self._chance.choice((0, 500, 10_000, 200_000))
        await asyncio.sleep(self._chance.uniform(1, 8))
        host.faults.capacity_bytes = None

    async def failed_reads(self) -> None:
        """Fail reads for a while: of a running host, of a recovering one, or of one that has just restarted."""
        node = self._chance.choice(self._nodes)
        host = self._cluster.host(node)
        kind = self._chance.randrange(3)
        if kind == 1:
            host.kill()
        elif kind == 2:
            await self._cluster.stop(node)
            await asyncio.sleep(self._chance.uniform(0.0, 3))
        if self._chance.random() < 0.5:
            host.faults.read_error_chance = self._chance.choice((0.01, 0.1, 0.5, 1.0))
        else:
            host.faults.read_errors = self._chance.choice((1, 3, 20))
            host.faults.reads_before_errors = self._chance.randrange(20)
        await asyncio.sleep(self._chance.choice((0.05, 0.3, 1.0, 4.0)))
        host.faults.read_error_chance = 0.0
        host.faults.read_errors = 0

    async def nothing_new(self) -> None:
        """Let no file or directory be created for a while; existing files accept writes."""
        faults = self._one().faults
        faults.create_errno = self._chance.choice(NOTHING_NEW)
        await asyncio.sleep(self._chance.uniform(1, 8))
        faults.create_errno = 0

    async def lost_writes(self) -> None:
        """Lose some synced writes; they are missing once the page cache is evicted."""
        faults = self._cluster.host(self._liar).faults
        faults.lost_write_chance = self._chance.choice((0.05, 0.3, 1.0))
        await self._lie()

    async def misdirected_writes(self) -> None:
        """Misdirect some synced writes to other places on the disk."""
        faults = self._cluster.host(self._liar).faults
        faults.misdirected_write_chance = self._chance.choice((0.05, 0.3))
        await self._lie()

    async def _lie(self) -> None:
        """Lose or misdirect writes for a moment, then evict the page cache, by a power cut or by memory pressure."""
        host = self._cluster.host(self._liar)
        await asyncio.sleep(self._chance.uniform(1, 10))  # Long enough for checkpoints.
        host.faults.lost_write_chance = host.faults.misdirected_write_chance = 0.0
        if self._chance.random() < 0.5:
            host.cut_power()
        else:
            host.evict()
        await asyncio.sleep(self._chance.uniform(1, 5))
        others = [node for node in self._nodes if node != self._liar]
        if self._chance.random() < 0.5 and self._cluster.leader_number() in others:
            await self._cluster.wait_until_settled()
            # The host with the bad disk may become leader and serve reads.
            self._cluster.host(self._cluster.leader_number()).kill()

    async def damage(self) -> None:
        """Flip a bit in the log or in a snapshot of one host and restart it; the other hosts are undamaged."""
        await self._cluster.wait_until_settled()
        host = self._one()
        room = "wal" if self._chance.random() < 0.7 else "shards"
        self.flip(host, lambda path: path.startswith(room))
        host.kill()

    async def damage_the_tail(self) -> None:
        """Flip a bit in the last frame of the log of one host and restart it."""
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
        """Flip a bit in an old segment of one host."""
        await self._cluster.wait_until_settled()
        host = self._one()
        newest = newest_segments(host)
        self.flip(host, lambda path: path.startswith("partitions") and path.endswith(".log") and path not in newest)

    def flip(self, host: Host, is_meant: Callable[[str], bool]) -> None:
        """Flip one bit of one of the selected files."""
        named = [(path.lstrip("/"), inode) for path, inode in host.platter.inodes()]
        written = [(path, inode) for path, inode in named if is_meant(path) and inode.content]
        if written:
            path, inode = self._chance.choice(written)
            size = len(inode.content.rstrip(b"\0")) or 1  # A log file is allocated long before it is filled.
            # A start replays the newest bytes; older bytes of a log may be covered by a checkpoint.
            first = max(0, size - LAST_BYTES) if path.startswith("wal") and self._chance.random() < 0.5 else 0
            position, bit = self._chance.randrange(first, size), 1 << self._chance.randrange(8)
            if path.endswith(".log"):
                self.flips.note(host.name, path, bytes(inode.content), position)
            inode.flip(position, bit)
            self._cluster.simulation.trace.note("flip", host.name, path, position, bit)

    async def clock_jump(self) -> None:
        self._one().clock_offset_ms += self._chance.choice((-3_600_000, -1_000, 1_000, 3_600_000))

    def _one(self) -> Host:
        return self._cluster.host(self._chance.choice(self._nodes))


def newest_segments(host: Host) -> set[str]:
    """The newest segment of each partition, which is still being written."""
    newest: dict[str, str] = {}
    for path, _ in host.platter.inodes():
        directory, _, name = path.lstrip("/").rpartition("/")
        if name.endswith(".log"):
            newest[directory] = max(newest.get(directory, ""), f"{directory}/{name}")
    return set(newest.values())

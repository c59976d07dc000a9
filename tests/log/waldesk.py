"""A write-ahead log on a simulated disk, with power failures, damage and restarts."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from longhall.log.frames import ENTRY_HEADER_BYTES, Frame, encode_event
from longhall.log.wal import FILE_BYTES_MIN, Damage, Wal
from simulation.loop import PowerCut
from simulation.platter import Inode
from simulation.world import Simulation

NOISE = os.urandom(1 << 16) * 96  # Six megabytes that do not look like frames.


class WalDesk:
    """One host with one log. Entries are numbered; `appended` are those that the writer expects in the log."""

    def __init__(self, seed: int = 1, file_bytes: int = FILE_BYTES_MIN) -> None:
        self.simulation = Simulation(seed)
        self.host = self.simulation.host("node")
        self.file_bytes = file_bytes
        self.appended: list[int] = []
        self.synced = 0  # How many of them were synced.
        self.positions: list[int] = []  # Positions of the written frames.
        self.from_position = 0
        self.durable = 0
        self.damage: list[Damage] = []
        self.next_number = 0
        disk = self.host.boot().disk
        disk.make_directory("wal")
        disk.sync_directory("")
        self.boot()

    def boot(self) -> list[int]:
        """Start, recover and continue after the recovered entries; returns them."""
        if self.host.process is not None and self.host.process.alive:
            self.host.kill()
        self.disk = self.host.boot().disk
        self.wal = Wal(self.disk, self.file_bytes)
        found: list[int] = []
        end = self.from_position
        self.damage = []
        for frame in self.wal.recover(self.from_position, self.durable):
            if isinstance(frame, Damage):
                self.damage.append(frame)
                end = frame.next_position
                continue
            end = frame.position + frame.size_bytes if frame.entries else self.wal.next_file_start(frame.position)
            found += numbers_of(frame)
        self.wal.sync_recovered(end)
        self.wal.resume(end, 0)
        return found

    def append(self, size: int = 10) -> int:
        number = self.next_number
        self.next_number += 1
        body = number.to_bytes(8, "big") + NOISE[: max(size - 8, 0)]
        self.wal.append(encode_event(0, 1, number, 0, 0, body))
        self.appended.append(number)
        return number

    def write(self) -> None:
        self.positions.append(self.wal.end)
        self.wal.write(5)

    def sync(self) -> None:
        self.write()
        for file in self.wal.dirty_files():
            self.disk.sync_now(file)
        self.wal.synced(self.wal.end)
        self.synced = len(self.appended)

    def put(self, size: int = 10) -> int:
        """Append one entry and make it durable."""
        number = self.append(size)
        self.sync()
        return number

    @contextmanager
    def power(self) -> Iterator[None]:
        """The power may be cut inside."""
        try:
            yield
        except PowerCut:
            pass

    def files(self) -> dict[str, Inode]:
        return {path: inode for path, inode in self.host.platter.inodes() if path.startswith("wal/")}

    def current(self) -> Inode:
        used = self.wal._used[-1].file
        return self.files()[used.path]

    def expect_after_crash(self, found: list[int]) -> None:
        """Check that everything synced was found, in order, once, and that everything found was appended."""
        assert found == self.appended[: len(found)]
        assert len(found) >= self.synced
        self.appended = found
        self.synced = len(found)


def numbers_of(frame: Frame) -> list[int]:
    return [int.from_bytes(entry.event()[:8], "big") for entry in frame.entries]


def entry_size(frame_bytes: int) -> int:
    """The size of the event that makes a frame of one entry this large."""
    return frame_bytes - 48 - ENTRY_HEADER_BYTES - 1

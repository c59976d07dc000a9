"""The Disk port over a platter, for one process.

Calls that a real disk answers from memory take no time. A sync takes virtual time and does not cover what was written
after it began. The power may be cut at every change: see `DiskFailureModel.cut_after_changes`.
"""

from __future__ import annotations

import errno
import random
import zlib
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, final

from longhall.world.ports import Buffer, Done, File
from simulation.loop import PowerCut, Process, SimulatedLoop
from simulation.platter import SECTOR_BYTES, Directory, Inode, Platter
from simulation.trace import Trace

SYNC_MS: Final = (0.1, 2.0)
SYNC_STALL_MS: Final = (20.0, 300.0)
SYNC_STALL_CHANCE: Final = 0.01
BEHIND_MS: Final = (0.1, 20.0)
BEHIND_MAX: Final = 3  # Writes under way at once; a real disk accepts more, so the refusal is exercised often here.

# Files whose writes the disk may lose or misdirect: everything that is replicated.
DATA: Final = ("wal/", "shards/", "partitions/", "incoming/")

_Covered = tuple[Inode, int]  # A file, and the last of its changes that a sync covers.


@final
class DiskFailureModel:
    """The faults that a disk has now. A scenario sets them, and they stay until it changes them."""

    def __init__(self) -> None:
        self.cold_read_chance = 0.05
        self.heal()

    def heal(self) -> None:
        """No call fails from now on; damage that was done stays."""
        self.capacity_bytes: int | None = None  # None: unlimited.
        self.sync_ms = SYNC_MS
        self.sync_error_chance = 0.0
        self.cut_after_changes = -1  # Decreases with every change; the power is cut when it reaches 0.
        self.read_error_chance = 0.0  # Probability that a read fails with EIO.
        self.read_errors = 0  # Number of reads that fail with EIO,
        self.reads_before_errors = 0  # after this number of successful reads.
        self.create_errno = 0  # Creating a file or directory fails with this errno; existing files work.
        self.lost_write_chance = 0.0  # Probability that a synced write never reaches the medium.
        self.misdirected_write_chance = 0.0  # Probability that a synced write reaches another place on the medium.


@final
class SimulatedDisk:
    """One process's view of its host's disk. `cut` is called when a counted change cuts the power."""

    def __init__(
        self,
        loop: SimulatedLoop,
        process: Process,
        platter: Platter,
        faults: DiskFailureModel,
        chance: random.Random,
        trace: Trace,
        cut: Callable[[], None],
    ) -> None:
        self._loop = loop
        self._process = process
        self._platter = platter
        self._faults = faults
        self._chance = chance
        self._trace = trace
        self._cut = cut
        self._lanes_free_at = [0.0, 0.0]
        self._behind: deque[tuple[SimulatedFile, int, bytes, Done]] = deque()
        self._behind_free_at = 0.0

    def open(self, path: str, *, create: bool = False) -> File:
        self.check()
        directory, name = self._parent(path)
        node = directory.entries.get(name)
        if isinstance(node, Directory):
            raise IsADirectoryError(errno.EISDIR, "is a directory", path)
        if node is None:
            if not create:
                raise FileNotFoundError(errno.ENOENT, "no such file", path)
            self.changing("create", path)
            self._check_create(path)
            node = Inode()
            self._platter.change([(directory, name, node)])
        return SimulatedFile(self, path, node)

    def exists(self, path: str) -> bool:
        self.check()
        return self._find(path) is not None

    def list(self, path: str) -> list[str]:
        self.check()
        node = self._find(path)
        if isinstance(node, Inode):
            raise NotADirectoryError(errno.ENOTDIR, "not a directory", path)
        return sorted(node.entries) if node is not None else []

    def make_directory(self, path: str) -> None:
        self.check()
        directory = self._platter.root
        for name in _parts(path):
            node = directory.entries.get(name)
            if isinstance(node, Inode):
                raise FileExistsError(errno.EEXIST, "a file is in the way", path)
            if node is None:
                self.changing("mkdir", path)
                self._check_create(path)
                node = Directory()
                self._platter.change([(directory, name, node)])
            directory = node

    def rename(self, source: str, target: str) -> None:
        self.changing("rename", source, target)
        old_directory, old_name = self._parent(source)
        new_directory, new_name = self._parent(target)
        node = old_directory.entries.get(old_name)
        if node is None:
            raise FileNotFoundError(errno.ENOENT, "no such file", source)
        if (old_directory, old_name) != (new_directory, new_name):
            self._platter.change([(old_directory, old_name, None), (new_directory, new_name, node)])

    def remove(self, path: str) -> None:
        self.check()
        directory, name = self._parent(path)
        node = directory.entries.get(name)
        if node is None:
            raise FileNotFoundError(errno.ENOENT, "no such file", path)
        # One name after the other, as the real call does: the power may be cut in between.
        if isinstance(node, Directory):
            for inner in sorted(node.entries):
                self.remove(f"{path}/{inner}")
        self.changing("remove", path)
        self._platter.change([(directory, name, None)])

    def sync_directory(self, path: str) -> None:
        self.changing("sync-directory", path)
        node = self._find(path)
        if not isinstance(node, Directory):
            raise NotADirectoryError(errno.ENOTDIR, "not a directory", path)
        if self._sync_fails():
            raise OSError(errno.EIO, "the disk failed", path)
        self._platter.harden_names(node)

    def sync_directories(self, paths: Sequence[str]) -> None:
        for path in paths:
            if self.exists(path):
                self.sync_directory(path)

    def sync(self, files: Sequence[File], done: Done, *, background: bool = False) -> None:
        self.changing("sync", *(file.path for file in files))
        covered = [(_simulated(file).inode, _simulated(file).inode.changes) for file in files]
        low, high = SYNC_STALL_MS if self._chance.random() < SYNC_STALL_CHANCE else self._faults.sync_ms
        starts_at = max(self._loop.time(), self._lanes_free_at[background])
        ends_at = starts_at + self._chance.uniform(low, high) / 1000
        self._lanes_free_at[background] = ends_at
        # The kernel finishes the sync even if the process dies, so the event belongs to the world and not to the
        # process.
        self._loop.call_at(ends_at, self._synced, covered, done)

    def _synced(self, covered: Sequence[_Covered], done: Done) -> None:
        error = self._settle(covered)
        self._trace.note(self._process.name, "synced", len(covered), "EIO" if error else "")
        self._process.enter(done, error)

    def sync_now(self, file: File) -> None:
        self.changing("sync-now", file.path)
        inode = _simulated(file).inode
        error = self._settle([(inode, inode.changes)])
        if error is not None:
            raise error

    def write_behind(self, file: File, position: int, buffers: Sequence[Buffer], done: Done) -> bool:
        self.check()
        if len(self._behind) >= BEHIND_MAX:
            return False
        # The caller may close the file before the write ends.
        self._behind.append((SimulatedFile(self, file.path, _simulated(file).inode), position, b"".join(buffers), done))
        starts_at = max(self._loop.time(), self._behind_free_at)
        self._behind_free_at = starts_at + self._chance.uniform(*BEHIND_MS) / 1000
        self._loop.call_at(self._behind_free_at, self._write_next)
        return True

    def finish_writes(self) -> None:
        """Complete the writes behind, also after the process has died: a helper process writes for it."""
        while self._behind:
            self._write_next()

    def _write_next(self) -> None:
        if not self._behind:
            return  # A caller waited for it and has finished it.
        file, position, data, done = self._behind.popleft()
        error: OSError | None = None
        room = self._room(file.inode, position + len(data)) - position
        self.store(file, position, data[: max(room, 0)])
        if room < len(data):
            error = OSError(errno.ENOSPC, "no space left", file.path)
        self._trace.note(self._process.name, "written-behind", file.path, position, len(data), "" if room else "full")
        self._process.enter(done, error)

    def _settle(self, covered: Sequence[_Covered]) -> OSError | None:
        if self._sync_fails():
            for inode, changes in covered:
                inode.forget(changes, self._chance)
            return OSError(errno.EIO, "the disk failed")
        for inode, changes in covered:
            inode.harden(changes)
        return None

    def free_bytes(self) -> int:
        self.check()
        return self._free()

    def free_files(self) -> int:
        self.check()
        return 1 << 40

    def is_linked(self, file: File) -> bool:
        self.check()
        return isinstance(file, SimulatedFile) and self._find(file.path) is file.inode

    def _free(self) -> int:
        if self._faults.capacity_bytes is None:
            return 1 << 40
        return max(0, self._faults.capacity_bytes - self._platter.used())

    def check(self) -> None:
        """Stop code of a dead process that is still unwinding: it may make no calls."""
        if not self._process.alive:
            raise PowerCut

    def changing(self, what: str, *details: object) -> None:
        """Note a change before it happens, and cut the power if this is the counted one."""
        self.check()
        self._trace.note(self._process.name, what, *details)
        if self._faults.cut_after_changes >= 0:
            self._faults.cut_after_changes -= 1
            if self._faults.cut_after_changes < 0:
                self._cut()
                raise PowerCut

    def room_for(self, inode: Inode, end: int) -> int:
        """The position up to which the file can grow towards `end`."""
        self.check()
        return self._room(inode, end)

    def _room(self, inode: Inode, end: int) -> int:
        return end if end <= inode.used else min(end, inode.used + self._free())

    def store(self, file: SimulatedFile, position: int, data: bytes) -> None:
        """Write, or lose or misdirect the write if the failure model says so."""
        faults = self._faults
        if faults.lost_write_chance or faults.misdirected_write_chance:
            drawn = self._chance.random()
            if (
                data
                and drawn < faults.lost_write_chance + faults.misdirected_write_chance
                and file.path.startswith(DATA)
            ):
                self._trace.note(self._process.name, "lies", file.path, position, len(data))
                file.inode.lose(position, data)
                if drawn >= faults.lost_write_chance:
                    self._misdirect(file, data)
                return
        file.inode.write(position, data)

    def _misdirect(self, file: SimulatedFile, data: bytes) -> None:
        """Write whole sectors, as a disk does, to another place of the same file or to another file."""
        files = [(path, inode) for path, inode in self._platter.inodes() if path.startswith(DATA) and inode.stable]
        path, inode = (
            (file.path, file.inode) if not files or self._chance.random() < 0.5 else self._chance.choice(files)
        )
        sector = self._chance.randrange(len(inode.stable.rstrip(b"\0")) // SECTOR_BYTES + 1)
        self._trace.note(self._process.name, "misdirected", path, sector)
        inode.strike(sector * SECTOR_BYTES, data)

    def reading(self, path: str) -> None:
        """Raise OSError before a read that is to fail."""
        self.check()
        faults = self._faults
        fails = faults.read_error_chance > 0 and self._chance.random() < faults.read_error_chance
        if faults.read_errors > 0:
            if faults.reads_before_errors > 0:
                faults.reads_before_errors -= 1
            else:
                faults.read_errors -= 1
                fails = True
        if fails:
            self._trace.note(self._process.name, "read-error", path)
            raise OSError(errno.EIO, "the disk failed", path)

    def _check_create(self, path: str) -> None:
        if self._faults.create_errno:
            raise OSError(self._faults.create_errno, "nothing new can be made", path)

    def reads_cold(self) -> bool:
        return self._chance.random() < self._faults.cold_read_chance

    def _sync_fails(self) -> bool:
        return self._faults.sync_error_chance > 0 and self._chance.random() < self._faults.sync_error_chance

    def _find(self, path: str) -> Inode | Directory | None:
        node: Inode | Directory | None = self._platter.root
        for name in _parts(path):
            if not isinstance(node, Directory):
                return None
            node = node.entries.get(name)
        return node

    def _parent(self, path: str) -> tuple[Directory, str]:
        parts = _parts(path)
        parent = self._find("/".join(parts[:-1]))
        if not isinstance(parent, Directory):
            raise FileNotFoundError(errno.ENOENT, "no such directory", path)
        return parent, parts[-1]


@final
class SimulatedFile:
    """An open file: reads see every write at once, durable or not."""

    def __init__(self, disk: SimulatedDisk, path: str, inode: Inode) -> None:
        self.path = path
        self.inode = inode
        self._disk = disk
        self._closed = False

    def write_at(self, position: int, buffers: Sequence[Buffer]) -> int:
        data = b"".join(buffers)
        self._changing("write", position, len(data), zlib.crc32(data))
        fits = self._disk.room_for(self.inode, position + len(data)) - position
        if fits < len(data):
            if fits > 0:
                self._disk.store(self, position, data[:fits])
            raise OSError(errno.ENOSPC, "no space left", self.path)
        if data:
            self._disk.store(self, position, data)
        return len(data)

    def read_at(self, position: int, size: int) -> bytes:
        self._disk.reading(self.path)
        self._check_open()
        return bytes(memoryview(self.inode.content)[position : position + size])  # One copy: files are large.

    def read_at_nowait(self, position: int, size: int) -> bytes | None:
        data = self.read_at(position, size)
        return None if self._disk.reads_cold() else data

    def read_from_disk(self, position: int, size: int) -> bytes:
        return self.read_at(position, size)

    def size(self) -> int:
        self._disk.check()
        self._check_open()
        return len(self.inode.content)

    def truncate(self, size: int) -> None:
        self._changing("truncate", size)
        if self._disk.room_for(self.inode, size) < size:
            raise OSError(errno.ENOSPC, "no space left", self.path)
        self.inode.truncate(size)
        self.inode.reserved = min(self.inode.reserved, size)

    def allocate(self, position: int, size: int) -> None:
        self._changing("allocate", position, size)
        if self._disk.room_for(self.inode, position + size) < position + size:
            raise OSError(errno.ENOSPC, "no space left", self.path)
        self.inode.reserved = max(self.inode.reserved, position + size)

    def leave_memory(self, position: int, size: int) -> None:
        self._disk.check()
        self._check_open()

    def close(self) -> None:
        self._closed = True

    def _changing(self, what: str, *details: object) -> None:
        self._check_open()
        self._disk.changing(what, self.path, *details)

    def _check_open(self) -> None:
        if self._closed:
            raise OSError(errno.EBADF, "the file is closed", self.path)


def _simulated(file: File) -> SimulatedFile:
    assert isinstance(file, SimulatedFile), "a file of another world"
    return file


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part not in ("", ".")]

"""Open files by path, never more than a bound: the least recently used one is closed for the next."""

from __future__ import annotations

from collections import OrderedDict
from typing import final

from longhall.log.recent import Recent
from longhall.world.ports import Disk, File


@final
class OpenFiles:
    """A bounded table of open files over a disk."""

    def __init__(self, disk: Disk, files_max: int, recent_bytes_max: int = 0) -> None:
        assert files_max >= 1
        self.disk = disk
        self._made: dict[str, int] = {}  # Directories with names that are not durable yet, and when the last one came.
        self._names = 0
        self._met: set[str] = set()  # Directories that were written to since the start: before, names are in doubt.
        self._files_max = files_max
        self._open: OrderedDict[str, File] = OrderedDict()
        self._recent = Recent(recent_bytes_max)

    def get(self, path: str) -> File:
        """The open file at `path`. FileNotFoundError if there is none."""
        file = self._open.get(path)
        if file is not None:
            self._open.move_to_end(path)
            return file
        return self._keep(path, self.disk.open(path))

    def make(self, directory: str, path: str) -> File:
        """The file at `path`, made with its directory if it is missing; its name is durable after `sync_names`."""
        file = self._open.get(path)
        if file is not None:
            self._open.move_to_end(path)
            return file
        if directory not in self._met or not self.disk.exists(path):
            self.disk.make_directory(directory)
            self.doubt_names(directory)
        return self._keep(path, self.disk.open(path, create=True))

    def wrote(self, path: str, position: int, size: int) -> None:
        """Something was written to an open file; what was written long before it need not stay in memory."""
        old = self._recent.wrote(path, position, size)
        if old is not None:
            file = self._open.get(old[0])
            if file is not None:
                file.leave_memory(old[1], old[2] - old[1])

    def doubt_names(self, directory: str) -> None:
        """There may be names here that are not durable: made now, or by an earlier life of the node."""
        parents = (directory,) if directory in self._met else (directory.rpartition("/")[0], directory)
        self._met.add(directory)
        self._names += 1
        for path in parents:
            self._made[path] = self._names

    def sync_names(self, directory: str) -> None:
        """Make the names in this directory, and its own name, durable. Waits for the disk."""
        parent = directory.rpartition("/")[0]
        for path in (parent, directory):
            if path in self._made:
                self.disk.sync_directory(path)
                self._made.pop(path, None)

    def are_names_durable(self, directory: str) -> bool:
        """Whether all names in this directory, and its own, are known to be durable."""
        parent = directory.rpartition("/")[0]
        return directory in self._met and directory not in self._made and parent not in self._made

    def unsynced_names(self) -> dict[str, int]:
        """The directories to sync for all names to be durable; give it to `names_synced` when that is done."""
        return dict(self._made)

    def names_synced(self, taken: dict[str, int]) -> None:
        """These were synced. Directories that got another name meanwhile are not done with."""
        for path, number in taken.items():
            if self._made.get(path) == number:
                del self._made[path]

    def forget(self, path: str) -> None:
        """Close the file if it is open: it is about to be replaced or removed."""
        file = self._open.pop(path, None)
        if file is not None:
            file.close()

    def close(self) -> None:
        """Close them all."""
        for file in self._open.values():
            file.close()
        self._open.clear()

    def __len__(self) -> int:
        return len(self._open)

    def _keep(self, path: str, file: File) -> File:
        self._open[path] = file
        if len(self._open) > self._files_max:
            _, oldest = self._open.popitem(last=False)
            oldest.close()
        return file

"""A bounded table of open files by path: it closes the least recently used file to open another."""

from __future__ import annotations

from collections import OrderedDict
from typing import final

from longhall.log.recent_writes import RecentWrites
from longhall.world.ports import Disk, File


@final
class OpenFiles:
    """Open files of a disk, at most `files_max`. Tracks which directories have names that are not durable yet."""

    def __init__(self, disk: Disk, files_max: int, recent_bytes_max: int = 0) -> None:
        assert files_max >= 1
        self.disk = disk
        # Directories with names that are not durable yet, and when the last one was added.
        self._unsynced_directories: dict[str, int] = {}
        self._names = 0
        self._written_directories: set[str] = set()  # Since the start. Names in others may not be durable.
        self._files_max = files_max
        self._open: OrderedDict[str, File] = OrderedDict()
        self._recent = RecentWrites(recent_bytes_max)

    def get(self, path: str) -> File:
        """The open file at `path`. FileNotFoundError if there is none."""
        file = self._open.get(path)
        if file is not None:
            self._open.move_to_end(path)
            return file
        return self._keep(path, self.disk.open(path))

    def make(self, directory: str, path: str) -> File:
        """The file at `path`, created with its directory if it is missing; its name is durable after `sync_names`."""
        file = self._open.get(path)
        if file is not None:
            self._open.move_to_end(path)
            return file
        if directory not in self._written_directories or not self.disk.exists(path):
            self.disk.make_directory(directory)
            self.doubt_names(directory)
        return self._keep(path, self.disk.open(path, create=True))

    def wrote(self, path: str, position: int, size: int) -> None:
        """Note a write to an open file. Pages that were written long before may be dropped from memory."""
        old = self._recent.wrote(path, position, size)
        if old is not None:
            file = self._open.get(old[0])
            if file is not None:
                file.leave_memory(old[1], old[2] - old[1])

    def doubt_names(self, directory: str) -> None:
        """Note that this directory may have names that are not durable: created now, or before the last restart."""
        parents = (directory,) if directory in self._written_directories else (directory.rpartition("/")[0], directory)
        self._written_directories.add(directory)
        self._names += 1
        for path in parents:
            self._unsynced_directories[path] = self._names

    def sync_names(self, directory: str) -> None:
        """Make the names in this directory, and its own name, durable. Waits for the disk."""
        parent = directory.rpartition("/")[0]
        for path in (parent, directory):
            if path in self._unsynced_directories:
                self.disk.sync_directory(path)
                self._unsynced_directories.pop(path, None)

    def are_names_durable(self, directory: str) -> bool:
        """True if all names in this directory, and its own name, are known to be durable."""
        parent = directory.rpartition("/")[0]
        return (
            directory in self._written_directories
            and directory not in self._unsynced_directories
            and parent not in self._unsynced_directories
        )

    def unsynced_names(self) -> dict[str, int]:
        """The directories with names that are not durable. Pass the result to `names_synced` after the sync."""
        return dict(self._unsynced_directories)

    def names_synced(self, taken: dict[str, int]) -> None:
        """Note that these directories were synced. A directory that got another name meanwhile stays on the list."""
        for path, number in taken.items():
            if self._unsynced_directories.get(path) == number:
                del self._unsynced_directories[path]

    def forget(self, path: str) -> None:
        """Close the file if it is open, before it is replaced or removed."""
        file = self._open.pop(path, None)
        if file is not None:
            file.close()

    def close(self) -> None:
        """Close all files."""
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

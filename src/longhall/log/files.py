"""Open files by path, never more than a bound: the least recently used one is closed for the next."""

from __future__ import annotations

from collections import OrderedDict
from typing import final

from longhall.world.ports import Disk, File


@final
class OpenFiles:
    """A bounded table of open files over a disk."""

    def __init__(self, disk: Disk, files_max: int) -> None:
        assert files_max >= 1
        self.disk = disk
        self.made_directories: set[str] = set()  # Directories with names that are not durable yet.
        self._files_max = files_max
        self._open: OrderedDict[str, File] = OrderedDict()

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
        if not self.disk.exists(path):
            parent = directory.rpartition("/")[0]
            if not self.disk.exists(directory):
                self.disk.make_directory(directory)
                self.made_directories.add(parent)
            self.made_directories.add(directory)
        return self._keep(path, self.disk.open(path, create=True))

    def doubt_names(self, directory: str) -> None:
        """An earlier life of the node may have made names here that it did not live to sync."""
        self.made_directories.add(directory.rpartition("/")[0])
        self.made_directories.add(directory)

    def sync_names(self, directory: str) -> None:
        """Make the names in this directory, and its own name, durable. Waits for the disk."""
        parent = directory.rpartition("/")[0]
        for path in (parent, directory):
            if path in self.made_directories:
                self.disk.sync_directory(path)
                self.made_directories.discard(path)

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

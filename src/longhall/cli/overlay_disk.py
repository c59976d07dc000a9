"""A copy-on-write disk: reads fall through to another disk, writes stay in memory, in pages.

Recovery writes: it truncates, allocates and removes. On this disk it can run on a directory that must not change.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence
from typing import Final, final

from longhall.world.ports import Buffer, Disk, Done, File

PAGE_BYTES: Final = 64 * 1024


@final
class OverlayFile:
    """One file. `below` is the file of the other disk, if there is one, of which the first `_kept` bytes are still
    valid.
    """

    def __init__(self, path: str, below: File | None) -> None:
        self.path = path
        self._below = below
        self._kept = below.size() if below is not None else 0
        self._size = self._kept
        self._pages: dict[int, bytearray] = {}

    def write_at(self, position: int, buffers: Sequence[Buffer]) -> int:
        data = b"".join(buffers)
        at = 0
        while at < len(data):
            number, start = divmod(position + at, PAGE_BYTES)
            page = self._pages.get(number)
            if page is None:
                page = self._pages[number] = bytearray(self._read_below(number).ljust(PAGE_BYTES, b"\0"))
            part = data[at : at + PAGE_BYTES - start]
            page[start : start + len(part)] = part
            at += len(part)
        self._size = max(self._size, position + len(data))
        return len(data)

    def read_from_disk(self, position: int, size: int) -> bytes:
        return self.read_at(position, size)

    def read_at(self, position: int, size: int) -> bytes:
        end = min(position + size, self._size)
        if not self._pages and self._below is not None and end <= self._kept:
            return self._below.read_at(position, max(end - position, 0))
        found = bytearray()
        while position < end:
            number, start = divmod(position, PAGE_BYTES)
            page = self._pages.get(number)
            whole = bytes(page) if page is not None else self._read_below(number).ljust(PAGE_BYTES, b"\0")
            part = whole[start : start + end - position]
            found += part
            position += len(part)
        return bytes(found)

    def read_at_nowait(self, position: int, size: int) -> bytes | None:
        return self.read_at(position, size)

    def size(self) -> int:
        return self._size

    def truncate(self, size: int) -> None:
        if size < self._size:
            self.write_at(size, (bytes(min(self._size, _page_end(size)) - size),))
            self._pages = {number: page for number, page in self._pages.items() if number * PAGE_BYTES < size}
            self._kept = min(self._kept, size)
        self._size = size

    def allocate(self, position: int, size: int) -> None:
        """Does nothing: memory needs no allocation."""

    def leave_memory(self, position: int, size: int) -> None:
        """Does nothing: the pages are the only copy."""

    def close(self) -> None:
        """Does nothing: the disk holds the pages."""

    def _read_below(self, number: int) -> bytes:
        start = number * PAGE_BYTES
        if self._below is None or start >= self._kept:
            return b""
        return self._below.read_at(start, min(PAGE_BYTES, self._kept - start))


@final
class OverlayDisk:
    """A `world.ports.Disk` over another disk, which it never writes to."""

    def __init__(self, below: Disk) -> None:
        self._below = below
        self._files: dict[str, OverlayFile] = {}
        self._gone: set[str] = set()

    def open(self, path: str, *, create: bool = False) -> File:
        file = self._files.get(path)
        if file is None:
            below = self._below.open(path) if not self._is_gone(path) and self._below.exists(path) else None
            if below is None and not create:
                raise FileNotFoundError(errno.ENOENT, "no such file", path)
            file = self._files[path] = OverlayFile(path, below)
        return file

    def exists(self, path: str) -> bool:
        inside = any(name == path or name.startswith(path + "/") for name in self._files)
        return inside or (not self._is_gone(path) and self._below.exists(path))

    def list(self, path: str) -> list[str]:
        prefix = f"{path}/" if path else ""
        below = self._below.list(path) if self._below.exists(path) or not path else []
        names = {name for name in below if not self._is_gone(prefix + name)}
        names |= {name[len(prefix) :].partition("/")[0] for name in self._files if name.startswith(prefix)}
        return sorted(names)

    def make_directory(self, path: str) -> None:
        """Does nothing: a directory exists if it has files."""

    def rename(self, source: str, target: str) -> None:
        file = self.open(source)
        assert isinstance(file, OverlayFile)
        self.remove(source)
        self._files[target] = file

    def remove(self, path: str) -> None:
        self._gone.add(path)
        for name in [name for name in self._files if name == path or name.startswith(path + "/")]:
            del self._files[name]

    def sync_directory(self, path: str) -> None:
        """Does nothing: no write is durable here."""

    def sync_directories(self, paths: Sequence[str]) -> None:
        """Does nothing: no write is durable here."""

    def sync(self, files: Sequence[File], done: Done, *, background: bool = False) -> None:
        done(None)

    def sync_now(self, file: File) -> None:
        """Does nothing: no write is durable here."""

    def write_behind(self, file: File, position: int, buffers: Sequence[Buffer], done: Done) -> bool:
        return False

    def finish_writes(self) -> None:
        """Does nothing: writes are never deferred."""

    def free_bytes(self) -> int:
        return 1 << 40

    def free_files(self) -> int:
        return 1 << 40

    def is_linked(self, file: File) -> bool:
        return True  # No other process uses what is only in memory.

    def _is_gone(self, path: str) -> bool:
        return any(path == one or path.startswith(one + "/") for one in self._gone)


def _page_end(position: int) -> int:
    return -(-position // PAGE_BYTES) * PAGE_BYTES

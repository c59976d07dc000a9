"""What the rooms may ask of the world, and nothing about how it is done.

Two worlds implement these ports: `world.real` (files, sockets, the wall clock) and `simulation` (virtual time, faulty
disks and links, by seed). The rooms below `broker` see only these protocols. Paths are relative to the disk's root,
with "/" between parts. Every call that can fail for a reason outside our control raises OSError with its errno.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol

Buffer = bytes | bytearray | memoryview
Done = Callable[[OSError | None], None]


class Clock(Protocol):
    """Two readings: what people call now, and what only moves forward."""

    def wall_ms(self) -> int:
        """Milliseconds since 1970; may jump either way."""

    def monotonic_ms(self) -> int:
        """Milliseconds since some moment; never jumps."""

    def monotonic_us(self) -> int:
        """The same in microseconds, for what is quick."""


class Readable(Protocol):
    """Whatever has bytes at positions."""

    def read_at(self, position: int, size: int) -> bytes:
        """Up to `size` bytes, fewer only at the end."""


class File(Protocol):
    """An open file. Writes reach the page cache; only `Disk.sync` makes them durable."""

    path: str

    def write_at(self, position: int, buffers: Sequence[Buffer]) -> int:
        """Write all buffers one after another from `position` and return their bytes; never writes less without
        raising.
        """

    def read_at(self, position: int, size: int) -> bytes:
        """Read up to `size` bytes, fewer only at the end of the file. May wait for the disk."""

    def read_at_nowait(self, position: int, size: int) -> bytes | None:
        """The same from memory alone; None when it would have to wait for the disk."""

    def read_from_disk(self, position: int, size: int) -> bytes:
        """The same from where the bytes are at rest, past what memory has of them where the file system permits it;
        what was not in memory before is not left there. Waits for the disk.
        """

    def size(self) -> int: ...

    def truncate(self, size: int) -> None: ...

    def allocate(self, position: int, size: int) -> None:
        """Reserve blocks, so that writing there later cannot run out of space. The file's size does not change."""

    def leave_memory(self, position: int, size: int) -> None:
        """Nobody is likely to read these bytes soon: what memory they take may serve others. Changes no byte."""

    def close(self) -> None: ...


class Disk(Protocol):
    """One data directory."""

    def open(self, path: str, *, create: bool = False) -> File:
        """Open for reading and writing. FileNotFoundError unless it exists or `create`."""

    def exists(self, path: str) -> bool: ...

    def list(self, path: str) -> list[str]:
        """Sorted names in a directory; empty if there is none."""

    def make_directory(self, path: str) -> None:
        """With its parents; no error if it is there."""

    def rename(self, source: str, target: str) -> None:
        """Atomic, replaces the target. Durable only after `sync_directory` of its directory."""

    def remove(self, path: str) -> None:
        """Remove a file, or a directory with everything in it."""

    def sync_directory(self, path: str) -> None:
        """Make names created, renamed or removed in this directory durable. Blocks: not for hot paths."""

    def sync_directories(self, paths: Sequence[str]) -> None:
        """The same for many, in whatever way is cheapest; those that are gone need nothing."""

    def sync(self, files: Sequence[File], done: Done, *, background: bool = False) -> None:
        """Make everything written to these files so far durable, then call `done` on the loop, with None or the
        failure.

        Returns at once and does not need the interpreter to make progress. Calls finish in the order they were made,
        within each of two lanes: what is in the `background` (checkpoints) never stands before a commit.
        """

    def sync_now(self, file: File) -> None:
        """The same, blocking: for start, stop and the janitor."""

    def write_behind(self, file: File, position: int, buffers: Sequence[Buffer], done: Done) -> bool:
        """Write beside the loop, as `write_at` would, but leave nothing in memory that readers would find there; then
        call `done` on the loop. False if there is no room for it now: nothing happens then.

        Until `done` nobody reads these bytes from the file, or writes them or what stands before them. On a failure any
        part of them may be there. It is not a sync: what makes them durable must begin after `done`.
        """

    def finish_writes(self) -> None:
        """Wait until everything begun by `write_behind` has ended and was told. Blocks: not for hot paths."""

    def free_bytes(self) -> int: ...

    def free_files(self) -> int:
        """How many files and directories can still be made; a very large number where nothing bounds them."""

    def is_linked(self, file: File) -> bool:
        """True if the file's path still names it: nobody has removed or replaced it, or a directory above it."""


class Entropy(Protocol):
    """Where ids and secrets come from."""

    def bytes(self, size: int) -> bytes: ...

    def below(self, bound: int) -> int:
        """A number from 0 up to but not including `bound`."""


class Network(Protocol):
    """Connections as asyncio transports and protocols, so that both worlds run the same connection code."""

    async def listen(self, factory: Callable[[], asyncio.BaseProtocol], host: str, port: int) -> tuple[Listener, int]:
        """Accept connections and return the listener with the port it got (a free one when `port` is 0)."""

    async def connect(self, factory: Callable[[], asyncio.BaseProtocol], host: str, port: int) -> asyncio.BaseProtocol:
        """Open a connection and return the protocol that the factory made for it."""


class Listener(Protocol):
    """An open door."""

    def close(self) -> None:
        """Accept no more; connections that are open stay so."""


class Janitor(Protocol):
    """Runs slow jobs away from the loop: in a process of its own, or in virtual time."""

    async def run(self, job: str, arguments: dict[str, object]) -> dict[str, object]:
        """Run a named job of `log.chores` on the data directory. Raises OSError or LonghallError as the job did."""

    async def read(self, file: File, position: int, size: int) -> bytes:
        """`File.read_at` for data that is not in memory, without holding up the loop."""


class World(Protocol):
    """All of it, handed down from `node`."""

    @property
    def clock(self) -> Clock: ...

    @property
    def disk(self) -> Disk: ...

    @property
    def network(self) -> Network: ...

    @property
    def entropy(self) -> Entropy: ...

    @property
    def janitor(self) -> Janitor: ...

    def close(self) -> None:
        """Give back what outlives an object: processes, the lock on the directory. Nothing of this world works
        afterwards.
        """

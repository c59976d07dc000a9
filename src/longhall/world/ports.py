"""The interfaces of the platform: clock, disk, network, randomness and janitor.

Two worlds implement them: `world.real` (files, sockets, the wall clock) and `simulation` (virtual time, faulty disks
and links, by seed). The rooms below `broker` see only these protocols. Paths are relative to the disk's root, with "/"
between parts. Every call that can fail for a reason outside our control raises OSError with its errno.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

Buffer = bytes | bytearray | memoryview
Done = Callable[[OSError | None], None]
T = TypeVar("T")


class Clock(Protocol):
    """The wall clock and a monotonic clock."""

    def wall_ms(self) -> int:
        """Milliseconds since 1970; may jump either way."""

    def monotonic_ms(self) -> int:
        """Milliseconds since an arbitrary moment; never jumps."""

    def monotonic_us(self) -> int:
        """The same in microseconds, for short durations."""


class Readable(Protocol):
    """A source of bytes by position."""

    def read_at(self, position: int, size: int) -> bytes:
        """Up to `size` bytes, fewer only at the end."""


class File(Protocol):
    """An open file. Writes reach the page cache; only `Disk.sync` makes them durable."""

    path: str

    def write_at(self, position: int, buffers: Sequence[Buffer]) -> int:
        """Write all buffers one after another from `position` and return their total size; a short write raises."""

    def read_at(self, position: int, size: int) -> bytes:
        """Read up to `size` bytes, fewer only at the end of the file. May wait for the disk."""

    def read_at_nowait(self, position: int, size: int) -> bytes | None:
        """`read_at` from memory alone; None when it would have to wait for the disk."""

    def read_from_disk(self, position: int, size: int) -> bytes:
        """`read_at` from the disk itself, past the page cache where the file system permits it. Bytes that were not in
        memory before are not left there. Waits for the disk.
        """

    def size(self) -> int: ...

    def truncate(self, size: int) -> None: ...

    def allocate(self, position: int, size: int) -> None:
        """Reserve blocks, so that later writes there cannot run out of space. The file's size does not change."""

    def leave_memory(self, position: int, size: int) -> None:
        """Drop these bytes from the page cache: no reader is expected soon. Changes no byte."""

    def close(self) -> None: ...


class Disk(Protocol):
    """One data directory."""

    def open(self, path: str, *, create: bool = False) -> File:
        """Open for reading and writing. FileNotFoundError unless it exists or `create`."""

    def exists(self, path: str) -> bool: ...

    def list(self, path: str) -> list[str]:
        """Sorted names in a directory; empty if there is none."""

    def make_directory(self, path: str) -> None:
        """Create a directory and its parents; no error if it exists."""

    def rename(self, source: str, target: str) -> None:
        """Atomic, replaces the target. Durable only after `sync_directory` of its directory."""

    def remove(self, path: str) -> None:
        """Remove a file, or a directory with everything in it."""

    def sync_directory(self, path: str) -> None:
        """Make names created, renamed or removed in this directory durable. Blocks: not for hot paths."""

    def sync_directories(self, paths: Sequence[str]) -> None:
        """`sync_directory` for many, in the cheapest way; missing directories are skipped."""

    def sync(self, files: Sequence[File], done: Done, *, background: bool = False) -> None:
        """Make everything written to these files so far durable, then call `done` on the loop, with None or the
        failure.

        Returns at once and does not need the interpreter to make progress. Calls finish in order within each of two
        lanes: a commit never waits for a sync in the `background` (checkpoints).
        """

    def sync_now(self, file: File) -> None:
        """A blocking sync: for start, stop and the janitor."""

    def write_behind(self, file: File, position: int, buffers: Sequence[Buffer], done: Done) -> bool:
        """Write like `write_at`, but in another process and past the page cache; then call `done` on the loop. False if
        the writer has no room now: nothing happens then.

        Until `done` the caller must not read these bytes from the file, nor write them or the bytes before them. After
        a failure any part of them may be written. This is not a sync: the sync for durability must begin after `done`.
        """

    def finish_writes(self) -> None:
        """Wait until every write that `write_behind` began has ended and its `done` was called. Blocks: not for hot
        paths.
        """

    def free_bytes(self) -> int: ...

    def free_files(self) -> int:
        """The number of files and directories that can still be created; very large if there is no bound."""

    def is_linked(self, file: File) -> bool:
        """True if the file's path still names it: neither it nor a directory above it was removed or replaced."""


class Entropy(Protocol):
    """The source of ids and secrets."""

    def bytes(self, size: int) -> bytes: ...

    def below(self, bound: int) -> int:
        """A number from 0 up to but not including `bound`."""


class Network(Protocol):
    """Connections as asyncio transports and protocols, so that both worlds run the same connection code."""

    async def listen(self, factory: Callable[[], asyncio.BaseProtocol], host: str, port: int) -> tuple[Listener, int]:
        """Accept connections and return the listener with its port (a free one when `port` is 0)."""

    async def connect(self, factory: Callable[[], asyncio.BaseProtocol], host: str, port: int) -> asyncio.BaseProtocol:
        """Open a connection and return the protocol that the factory made for it."""


class Listener(Protocol):
    """An open listening socket."""

    def close(self) -> None:
        """Accept no more connections; open ones stay open."""


class Janitor(Protocol):
    """Runs slow jobs outside of the loop: in a process of its own, or in virtual time."""

    async def run(self, job: str, arguments: dict[str, object]) -> dict[str, object]:
        """Run a job of `log.background_jobs` by name on the data directory. Raises OSError or LonghallError as the job
        did.
        """

    async def read(self, file: File, position: int, size: int) -> bytes:
        """`File.read_at` for bytes that are not in memory, without blocking the loop."""

    async def compute(self, function: Callable[[], T]) -> T:
        """The result of a slow function that touches nothing else, such as a hash, without blocking the loop.
        OVERLOADED if too many wait.
        """


class World(Protocol):
    """All interfaces in one object, passed down from `node`."""

    @property
    def clock(self) -> Clock: ...

    @property
    def disk(self) -> Disk: ...

    @property
    def network(self) -> Network: ...

    @property
    def peers_network(self) -> Network:
        """The network between nodes, which may use TLS."""

    @property
    def entropy(self) -> Entropy: ...

    @property
    def janitor(self) -> Janitor: ...

    def close(self) -> None:
        """Stop the processes and release the lock on the directory. Nothing of this world works afterwards."""

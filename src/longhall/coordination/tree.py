"""The seam under the coordinator: a tree of small values with versions, sessions and one-shot watches.

It is what ZooKeeper offers, cut down to three verbs and a barrier. Paths begin with "/" and are relative to the
cluster's own root; the root itself is always there. Errors are those of `ports`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import msgspec

from longhall.coordination.ports import Session

Fired = Callable[[], None]
Heard = Callable[[Session], None]


class Node(msgspec.Struct, frozen=True):
    """A value as it was read."""

    data: bytes
    version: int  # 0 when it is created, one more with every write.
    created: int  # When it was created, as a number that grows with everything that happens in the tree.
    owner: int  # The session that it ends with; 0 if it stays.


class Create(msgspec.Struct, frozen=True, tag=True):
    """There must be none yet, and its parent must be there."""

    path: str
    data: bytes = b""
    ephemeral: bool = False


class Put(msgspec.Struct, frozen=True, tag=True):
    """Write over the version that was read."""

    path: str
    data: bytes
    version: int


class Delete(msgspec.Struct, frozen=True, tag=True):
    """It must have this version and no children."""

    path: str
    version: int


class Check(msgspec.Struct, frozen=True, tag=True):
    """Change nothing, but let nothing else of the commit happen unless it has this version."""

    path: str
    version: int


Operation = Create | Put | Delete | Check


class Tree(Protocol):
    """One client's view. All calls are made on the loop, and callbacks come on it.

    Reads may be old, but never older than what this session has read or written before. A watch fires once: when what
    it was set on has changed, or when nobody can tell any more because its connection is gone. A read may return the
    new value a moment before.
    """

    @property
    def session_id(self) -> int:
        """The owner of what this session creates; 0 while there is none."""

    async def start(self, heard: Heard) -> None:
        """Begin a session, make the root, and tell of every change of the session."""

    async def close(self) -> None: ...

    async def make_root(self) -> None:
        """Make the root if it is missing. The store behind the tree may lose its data while a session goes on."""

    async def get(self, path: str, fired: Fired | None = None) -> Node | None:
        """The value, or None if there is none. The watch is on its writing, removal or creation."""

    async def children(self, path: str, fired: Fired | None = None) -> list[str]:
        """Sorted names below a value that exists. The watch is on names that come and go. Conflict if there is none."""

    async def commit(self, *operations: Operation) -> list[int]:
        """All of them in this order or none; returns the version that each left (ABSENT after Delete and Check).
        Conflict if any cannot be done.
        """

    async def sync(self) -> None:
        """Reads after this one see everything that was committed before it, by anybody."""

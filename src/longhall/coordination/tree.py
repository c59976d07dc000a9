"""The interface below the coordinator: a tree of small values with versions, sessions and one-shot watches.

It is what ZooKeeper offers, reduced to three verbs and a barrier. Paths begin with "/" and are relative to the
cluster's own root; the root itself always exists. Errors are those of `ports`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import msgspec

from longhall.coordination.ports import Session

Fired = Callable[[], None]
OnSession = Callable[[Session], None]


class Node(msgspec.Struct, frozen=True):
    """A value as read."""

    data: bytes
    version: int  # 0 when it is created, one more with every write.
    created: int  # A number that grows with every commit to the tree.
    owner: int  # The session with which the value ends; 0 if it is permanent.


class Create(msgspec.Struct, frozen=True, tag=True):
    """Create a value. It must not exist, and its parent must."""

    path: str
    data: bytes = b""
    ephemeral: bool = False


class Put(msgspec.Struct, frozen=True, tag=True):
    """Overwrite the version that was read."""

    path: str
    data: bytes
    version: int


class Delete(msgspec.Struct, frozen=True, tag=True):
    """Delete a value. It must have this version and no children."""

    path: str
    version: int


class Check(msgspec.Struct, frozen=True, tag=True):
    """Change nothing, and fail the whole commit unless the value has this version."""

    path: str
    version: int


Operation = Create | Put | Delete | Check


class Tree(Protocol):
    """One client's view. All calls are made on the loop, and so are callbacks.

    Reads may be stale, but never older than what this session has read or written before. A watch fires once: when its
    value has changed, or when its connection is lost. A read may return the new value a moment before.
    """

    @property
    def session_id(self) -> int:
        """The owner of what this session creates; 0 while there is none."""

    async def start(self, on_session: OnSession) -> None:
        """Begin a session, create the root, and call `on_session` with every change of the session."""

    async def close(self) -> None: ...

    async def make_root(self) -> None:
        """Create the root if it is missing. The store behind the tree may lose its data during a session."""

    async def get(self, path: str, fired: Fired | None = None) -> Node | None:
        """The value, or None. The watch fires when it is created, written or removed."""

    async def children(self, path: str, fired: Fired | None = None) -> list[str]:
        """Sorted names below an existing value. The watch fires when a name is added or removed. Conflict if it is
        missing.
        """

    async def commit(self, *operations: Operation) -> list[int]:
        """Do all operations in this order, or none; returns the version that each left (ABSENT after Delete and Check).
        Conflict if any is impossible.
        """

    async def sync(self) -> None:
        """Wait until reads of this session see everything that was committed by anyone before this call."""

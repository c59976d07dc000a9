"""A part of a tree as a tree: its own root, in the session of the whole tree."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, final

import msgspec

from longhall.coordination.ports import Session, Watch
from longhall.coordination.tree import Fired, Node, OnSession, Operation, Tree


class Owner(Protocol):
    """The owner of the session."""

    @property
    def session(self) -> Session: ...

    def on_session(self, callback: Callable[[Session], None]) -> Watch: ...


@final
class Subtree:
    """A `tree.Tree` below a path of another one. The root exists already; its owner created it."""

    def __init__(self, tree: Tree, root: str, owner: Owner) -> None:
        self._tree = tree
        self._root = root
        self._owner = owner
        self._listener: Watch | None = None

    @property
    def session_id(self) -> int:
        return self._tree.session_id

    async def start(self, on_session: OnSession) -> None:
        self._listener = self._owner.on_session(on_session)
        on_session(self._owner.session)

    async def close(self) -> None:
        if self._listener is not None:
            self._listener.cancel()

    async def make_root(self) -> None:
        """Do nothing: the owner of the whole tree creates the root."""

    async def get(self, path: str, fired: Fired | None = None) -> Node | None:
        return await self._tree.get(self._full(path), fired)

    async def children(self, path: str, fired: Fired | None = None) -> list[str]:
        return await self._tree.children(self._full(path), fired)

    async def commit(self, *operations: Operation) -> list[int]:
        return await self._tree.commit(*(msgspec.structs.replace(one, path=self._full(one.path)) for one in operations))

    async def sync(self) -> None:
        await self._tree.sync()

    def _full(self, path: str) -> str:
        return self._root if path == "/" else self._root + path

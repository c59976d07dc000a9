"""Persistent watches over the one-shot watches of a tree.

Each read sets the next watch, so that no final state is missed, although intermediate ones may be. A lost connection
loses its watches: everything is read again once there is a connection. Each watch is one task, so its callback never
runs twice at a time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, Generic, TypeVar, final

from longhall.coordination.ports import CoordinationError
from longhall.coordination.tree import Node, Tree

READS_AT_ONCE_MAX: Final = 256
PAUSE_S: Final = 0.1  # Between attempts when a read fails although there is a connection.

T = TypeVar("T")


@final
class TreeWatch(Generic[T]):
    """Reads with `refresh` and calls `callback` with each new value. `waken` says that something may have changed."""

    def __init__(
        self,
        refresh: Callable[[], Awaitable[T]],
        callback: Callable[[T], None],
        connected: asyncio.Event,
        ended: Callable[[TreeWatch[T]], None],
    ) -> None:
        self._refresh = refresh
        self._callback = callback
        self._connected = connected
        self._ended = ended
        self._changed = asyncio.Event()
        self._task = asyncio.get_running_loop().create_task(self._follow(), name="a watch of the coordinator")
        self._task.add_done_callback(report_failure)

    def waken(self) -> None:
        self._changed.set()

    def cancel(self) -> None:
        self._task.cancel()
        self._ended(self)

    async def _follow(self) -> None:
        reported: list[T] = []
        while True:
            await self._connected.wait()
            self._changed.clear()
            try:
                value = await self._refresh()
            except CoordinationError:
                # The loss of the connection is not reported yet, or the connection has just come back: try again in
                # both cases.
                await asyncio.sleep(PAUSE_S)
                continue
            if not reported or reported[0] != value:
                reported = [value]
                self._tell(value)
            await self._changed.wait()

    def _tell(self, value: T) -> None:
        try:
            self._callback(value)
        except Exception as failure:
            # A callback that fails for one value still gets the next; the loop reports the failure like that of any
            # callback.
            loop = asyncio.get_running_loop()
            loop.call_exception_handler({"message": "a watch of the coordinator failed", "exception": failure})


def report_failure(task: asyncio.Task[None]) -> None:
    """Report the failure of a task that must not end to the loop's exception handler, which stops the node."""
    error = None if task.cancelled() else task.exception()
    if error is not None:
        reported = {"message": f"the task {task.get_name()!r} failed", "exception": error}
        asyncio.get_running_loop().call_exception_handler(reported)


@final
class WatchedValue:
    """One watched value."""

    def __init__(self, tree: Tree, path: str) -> None:
        self._tree = tree
        self._path = path
        self.waken: Callable[[], None] = _ignore

    def forget(self) -> None:
        """Do nothing: the connection's watches are lost, but `refresh` sets the next one anyway."""

    async def refresh(self) -> Node | None:
        return await self._tree.get(self._path, self._fired)

    def _fired(self) -> None:
        self.waken()


@final
class WatchedChildren:
    """The watched values below a path. Only values whose watch fired are read again."""

    def __init__(self, tree: Tree, path: str) -> None:
        self._tree = tree
        self._path = path
        self._known: dict[str, Node] = {}
        self._names_changed = True
        self._changed: set[str] = set()
        self.waken: Callable[[], None] = _ignore

    def forget(self) -> None:
        """Read everything again at the next `refresh`: the connection's watches are lost."""
        self._names_changed = True
        self._changed.update(self._known)

    async def refresh(self) -> dict[str, Node]:
        try:
            if self._names_changed:
                await self._read_names()
            names = sorted(self._changed)
            self._changed.clear()  # Watches that fire from here on count for the next refresh.
            for start in range(0, len(names), READS_AT_ONCE_MAX):
                await self._read(names[start : start + READS_AT_ONCE_MAX])
        except CoordinationError:
            self.forget()  # New names are found again because all of them count as unknown.
            raise
        return dict(sorted(self._known.items()))

    async def _read_names(self) -> None:
        self._names_changed = False
        names = await self._tree.children(self._path, self._names_fired)
        self._changed.update(name for name in names if name not in self._known)
        for name in [name for name in self._known if name not in names]:
            del self._known[name]
            self._changed.discard(name)

    async def _read(self, names: list[str]) -> None:
        nodes = await asyncio.gather(
            *(self._tree.get(f"{self._path}/{name}", partial(self._fired, name)) for name in names)
        )
        for name, node in zip(names, nodes, strict=True):
            if node is None:
                self._known.pop(name, None)
            else:
                self._known[name] = node

    def _names_fired(self) -> None:
        self._names_changed = True
        self.waken()

    def _fired(self, name: str) -> None:
        self._changed.add(name)
        self.waken()


async def read_all(tree: Tree, path: str) -> dict[str, Node]:
    """The values below a path, read once."""
    names = await tree.children(path)
    found: dict[str, Node] = {}
    for start in range(0, len(names), READS_AT_ONCE_MAX):
        some = names[start : start + READS_AT_ONCE_MAX]
        nodes = await asyncio.gather(*(tree.get(f"{path}/{name}") for name in some))
        found.update((name, node) for name, node in zip(some, nodes, strict=True) if node is not None)
    return found


def _ignore() -> None:
    """The callback before the first refresh: ignores the change."""

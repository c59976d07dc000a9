"""The Coordinator over any tree: the same code for one machine, for ZooKeeper and for the simulation.

    /members/N       the description of node N; ends with its session
    /manager         the controller and its term; ends with its session
    /terms           written by every election: its version is the term
    /shards/N        replicas, leader and epoch of shard N
    /epoch           the last epoch given            /ids/KIND       the next number of a kind
    /feature-level   what all nodes may write        /drains/N       node N is to be emptied
    /cluster-id      given once                      /wings/NAME     a wing; below it the same tree once more
    /lives/N         the last start of node N        /progress       the committed position of the log

After a lost connection the next read waits until its server has caught up, so that reading back a write is reliable.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, final

import msgspec

from longhall.coordination import encoding as at
from longhall.coordination.ports import (
    ABSENT,
    Conflict,
    FeatureLevel,
    Ids,
    Manager,
    MemberDescription,
    NodeLife,
    OutcomeUnknown,
    Progress,
    ReplicationGroup,
    Session,
    ShardState,
)
from longhall.coordination.subtree import Subtree
from longhall.coordination.tree import Check, Create, Delete, Node, Operation, Put, Tree
from longhall.coordination.watches import TreeWatch, WatchedChildren, WatchedValue, read_all

TRIES_MAX: Final = 32  # Attempts to advance a counter. Each failed one means that another node advanced it.


@final
class TreeCoordinator:
    """A coordinator over one tree. `ports.Coordinator` says what each call promises."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._session = Session.CLOSED
        self._behind = False
        self._connected = asyncio.Event()
        self._listeners: list[_Listener] = []
        self._watches: dict[TreeWatch[Any], WatchedValue | WatchedChildren] = {}

    # The session.

    @property
    def session(self) -> Session:
        return self._session

    async def start(self) -> None:
        await self._tree.start(self._session_changed)
        await self.prepare()

    async def close(self) -> None:
        for watch in list(self._watches):
            watch.cancel()
        await self._tree.close()

    async def prepare(self) -> None:
        await self._tree.make_root()
        for path in (at.MEMBERS, at.SHARDS, at.DRAINS, at.IDS, at.TERMS, at.WINGS, at.LIVES):
            if await self._tree.get(path) is None:
                await self._create_if_missing(path, b"")

    def on_session(self, callback: Callable[[Session], None]) -> _Listener:
        listener = _Listener(callback, self._listeners)
        self._listeners.append(listener)
        return listener

    def _session_changed(self, session: Session) -> None:
        self._session = session
        if session is Session.CONNECTED:
            self._behind = True
            self._connected.set()
            for watch, what in self._watches.items():
                what.forget()
                watch.waken()
        else:
            self._connected.clear()
        for listener in list(self._listeners):
            listener.callback(session)

    async def cluster_id(self, proposed: str) -> str:
        while (node := await self._read(at.CLUSTER)) is None:
            await self._create_if_missing(at.CLUSTER, proposed.encode())
        return node.data.decode()

    # Members.

    async def register(self, member: MemberDescription) -> MemberDescription:
        path = f"{at.MEMBERS}/{member.node_id}"
        data = at.encode_member(member)
        for _ in range(TRIES_MAX):
            self._behind = True  # The node may have left a moment ago: read the current state before refusing.
            there = await self._read(path)
            if there is None and await self._tree.get(at.MEMBERS) is None:
                await self.prepare()
            if there is not None and there.owner != self._tree.session_id:
                other = at.decode_member(path, there)
                if other.directory != member.directory:
                    raise Conflict(f"node {member.node_id} is alive with another data directory ({other.directory})")
            if await self._try(*_replace_ephemeral(path, data, there, self._tree.session_id)):
                mine = await self._read(path)
                if mine is not None and mine.owner == self._tree.session_id:
                    return at.decode_member(path, mine)
        raise Conflict(f"another process repeatedly registers as node {member.node_id}")

    async def member(self, node_id: int) -> MemberDescription | None:
        path = f"{at.MEMBERS}/{node_id}"
        node = await self._read(path)
        return None if node is None else at.decode_member(path, node)

    async def members(self) -> dict[int, MemberDescription]:
        return _members(await self._read_all(at.MEMBERS))

    def watch_members(
        self, callback: Callable[[Mapping[int, MemberDescription]], None]
    ) -> TreeWatch[dict[int, MemberDescription]]:
        collection = WatchedChildren(self._tree, at.MEMBERS)

        async def refresh() -> dict[int, MemberDescription]:
            return _members(await collection.refresh())

        return self._follow(collection, refresh, callback)

    async def note_life(self, node_id: int, life: NodeLife) -> NodeLife | None:
        path = f"{at.LIVES}/{node_id}"
        data = at.encode_life(life)
        for _ in range(TRIES_MAX):
            there = await self._read(path)
            known = None if there is None else at.decode_life(path, there)
            if known is not None and known.directory == life.directory and known.life >= life.life:
                return known
            if await self._try(Create(path, data) if there is None else Put(path, data, there.version)):
                return known
        raise Conflict(f"another process repeatedly starts as node {node_id}")

    # The manager.

    async def campaign(self, node_id: int) -> Manager:
        for _ in range(TRIES_MAX):
            self._behind = True
            there = await self._read(at.MANAGER)
            if there is not None:
                manager = at.decode_manager(at.MANAGER, there)
                if manager.node_id != node_id or there.owner == self._tree.session_id:
                    return manager
            terms = await self._read(at.TERMS)
            if terms is None:
                raise Conflict("the coordinator has lost its data; registering this node recreates it")
            manager = Manager(node_id=node_id, epoch=terms.version + 1)
            # The entry of an earlier session of this node is replaced: the election need not wait until it expires.
            left = [Delete(at.MANAGER, there.version)] if there is not None else []
            office = Create(at.MANAGER, at.encode_manager(manager), ephemeral=True)
            if await self._try(Put(at.TERMS, b"", terms.version), *left, office):
                return manager
        raise Conflict("other nodes repeatedly won the election")

    async def resign(self, manager: Manager) -> None:
        await self._try(Check(at.TERMS, manager.epoch), Delete(at.MANAGER, 0))

    async def manager(self) -> Manager | None:
        return _manager(await self._read(at.MANAGER))

    def watch_manager(self, callback: Callable[[Manager | None], None]) -> TreeWatch[Manager | None]:
        single = WatchedValue(self._tree, at.MANAGER)

        async def refresh() -> Manager | None:
            return _manager(await single.refresh())

        return self._follow(single, refresh, callback)

    # Shards.

    async def shards(self) -> dict[int, ShardState]:
        return _shards(await self._read_all(at.SHARDS))

    async def shard(self, shard: int) -> ShardState | None:
        path = f"{at.SHARDS}/{shard}"
        node = await self._read(path)
        return None if node is None else at.decode_shard(path, node)

    async def change_shard(
        self, before: ShardState | None, after: ShardState, *, under: Manager | None = None
    ) -> ShardState:
        if before is not None:
            assert after.shard == before.shard, "another shard"
            assert after.epoch >= before.epoch, "an epoch never goes down"
            assert after.epoch > before.epoch or after.leader in (before.leader, 0), "a new leader needs a new epoch"
        path = f"{at.SHARDS}/{after.shard}"
        data = at.encode_shard(after)
        change = Create(path, data) if before is None else Put(path, data, before.version)
        guards = () if under is None else (Check(at.TERMS, under.epoch), Check(at.MANAGER, 0))
        versions = await self._commit(*guards, change)
        return msgspec.structs.replace(after, version=versions[-1])

    async def remove_shard(self, before: ShardState) -> None:
        await self._commit(Delete(f"{at.SHARDS}/{before.shard}", before.version))

    def watch_shards(self, callback: Callable[[Mapping[int, ShardState]], None]) -> TreeWatch[dict[int, ShardState]]:
        collection = WatchedChildren(self._tree, at.SHARDS)

        async def refresh() -> dict[int, ShardState]:
            return _shards(await collection.refresh())

        return self._follow(collection, refresh, callback)

    async def note_progress(self, progress: Progress) -> None:
        for _ in range(TRIES_MAX):
            there = await self._read(at.PROGRESS)
            known = at.decode_progress(at.PROGRESS, there)
            if (known.epoch, known.index) >= (progress.epoch, progress.index):
                return
            data = at.encode_progress(progress)
            if await self._try(Create(at.PROGRESS, data) if there is None else Put(at.PROGRESS, data, there.version)):
                return

    async def progress(self) -> Progress:
        return at.decode_progress(at.PROGRESS, await self._read(at.PROGRESS))

    # Numbers.

    async def next_epoch(self, *, above: int = 0) -> int:
        return await self._advance(at.EPOCH, above, 1) + 1

    async def take_ids(self, kind: Ids, count: int, *, first_min: int = 0) -> range:
        assert count > 0, "a block of ids is not empty"
        first = await self._advance(at.counter_path(kind), first_min, count)
        return range(first, first + count)

    async def _advance(self, path: str, at_least: int, by: int) -> int:
        """Advance a counter by `by`; returns its value before, or `at_least` if that is more."""
        for _ in range(TRIES_MAX):
            node = await self._read(path)
            stood = max(at_least, 0 if node is None else at.decode_number(path, node))
            data = at.encode_number(stood + by)
            if await self._try(Create(path, data) if node is None else Put(path, data, node.version)):
                return stood
        raise Conflict(f"other nodes repeatedly advanced {path}")

    # Settings of the cluster.

    async def feature_level(self) -> FeatureLevel:
        return at.decode_level(at.LEVEL, await self._read(at.LEVEL))

    async def change_feature_level(self, before: FeatureLevel, level: int) -> FeatureLevel:
        data = at.encode_number(level)
        new = before.version == ABSENT
        change = Create(at.LEVEL, data) if new else Put(at.LEVEL, data, before.version)
        return FeatureLevel(level=level, version=(await self._commit(change))[0])

    def watch_feature_level(self, callback: Callable[[FeatureLevel], None]) -> TreeWatch[FeatureLevel]:
        single = WatchedValue(self._tree, at.LEVEL)

        async def refresh() -> FeatureLevel:
            return at.decode_level(at.LEVEL, await single.refresh())

        return self._follow(single, refresh, callback)

    async def drains(self) -> frozenset[int]:
        await self._catch_up()
        return at.decode_numbers(at.DRAINS, await self._tree.children(at.DRAINS))

    async def mark_drain(self, node_id: int) -> None:
        await self._create_if_missing(f"{at.DRAINS}/{node_id}", b"")

    async def clear_drain(self, node_id: int) -> None:
        await self._try(Delete(f"{at.DRAINS}/{node_id}", 0))

    def watch_drains(self, callback: Callable[[frozenset[int]], None]) -> TreeWatch[frozenset[int]]:
        collection = WatchedChildren(self._tree, at.DRAINS)

        async def refresh() -> frozenset[int]:
            return at.decode_numbers(at.DRAINS, list(await collection.refresh()))

        return self._follow(collection, refresh, callback)

    # Wings.

    async def wings(self) -> dict[str, ReplicationGroup]:
        return _wings(await self._read_all(at.WINGS))

    async def change_wing(self, before: ReplicationGroup | None, after: ReplicationGroup) -> ReplicationGroup:
        path = f"{at.WINGS}/{after.name}"
        data = at.encode_wing(after)
        change = Create(path, data) if before is None else Put(path, data, before.version)
        return msgspec.structs.replace(after, version=(await self._commit(change))[0])

    def watch_wings(
        self, callback: Callable[[Mapping[str, ReplicationGroup]], None]
    ) -> TreeWatch[dict[str, ReplicationGroup]]:
        collection = WatchedChildren(self._tree, at.WINGS)

        async def refresh() -> dict[str, ReplicationGroup]:
            return _wings(await collection.refresh())

        return self._follow(collection, refresh, callback)

    def beside(self, wing: str) -> TreeCoordinator:
        return TreeCoordinator(Subtree(self._tree, f"{at.WINGS}/{wing}", self))

    # Shared helpers.

    async def _read(self, path: str) -> Node | None:
        await self._catch_up()
        return await self._tree.get(path)

    async def _read_all(self, path: str) -> dict[str, Node]:
        await self._catch_up()
        return await read_all(self._tree, path)

    async def _catch_up(self) -> None:
        if self._behind:
            await self._tree.sync()
            self._behind = False

    async def _try(self, *operations: Operation) -> bool:
        """True if the operations were committed."""
        try:
            await self._commit(*operations)
        except Conflict:
            return False
        return True

    async def _commit(self, *operations: Operation) -> list[int]:
        """Commit. After a conflict or an unknown outcome the next read is up to date."""
        try:
            return await self._tree.commit(*operations)
        except (Conflict, OutcomeUnknown):
            self._behind = True
            raise

    async def _create_if_missing(self, path: str, data: bytes) -> None:
        await self._try(Create(path, data))

    def _follow(
        self,
        what: WatchedValue | WatchedChildren,
        refresh: Callable[[], Awaitable[Any]],
        callback: Callable[[Any], None],
    ) -> TreeWatch[Any]:
        watch: TreeWatch[Any] = TreeWatch(refresh, callback, self._connected, self._forget)
        what.waken = watch.waken
        self._watches[watch] = what
        return watch

    def _forget(self, watch: TreeWatch[Any]) -> None:
        self._watches.pop(watch, None)


@final
class _Listener:
    """A subscription to changes of the session."""

    def __init__(self, callback: Callable[[Session], None], listeners: list[_Listener]) -> None:
        self.callback = callback
        self._listeners = listeners

    def cancel(self) -> None:
        if self in self._listeners:
            self._listeners.remove(self)


def _replace_ephemeral(path: str, data: bytes, there: Node | None, session_id: int) -> list[Operation]:
    if there is not None and there.owner == session_id:
        return [Put(path, data, there.version)]
    left: list[Operation] = [] if there is None else [Delete(path, there.version)]
    return [*left, Create(path, data, ephemeral=True)]


def _members(nodes: dict[str, Node]) -> dict[int, MemberDescription]:
    members = (at.decode_member(f"{at.MEMBERS}/{name}", node) for name, node in nodes.items())
    return {member.node_id: member for member in sorted(members, key=lambda member: member.node_id)}


def _shards(nodes: dict[str, Node]) -> dict[int, ShardState]:
    states = (at.decode_shard(f"{at.SHARDS}/{name}", node) for name, node in nodes.items())
    return {state.shard: state for state in sorted(states, key=lambda state: state.shard)}


def _wings(nodes: dict[str, Node]) -> dict[str, ReplicationGroup]:
    return {name: at.decode_wing(f"{at.WINGS}/{name}", node) for name, node in sorted(nodes.items())}


def _manager(node: Node | None) -> Manager | None:
    return None if node is None else at.decode_manager(at.MANAGER, node)

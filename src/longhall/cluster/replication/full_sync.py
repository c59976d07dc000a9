"""Full sync: a replica copies the leader's checkpoint and segments, because its own log cannot be continued.

    leader        takes a checkpoint and pins it: until the follower is done no other is taken and no file is replaced
    follower      reads the snapshot and the segments in pieces, into a directory beside the old data, and syncs them
    verification  every batch is checked; damaged ones come from the old copy or from other replicas
    history       entries that were committed here must be part of the leader's history; otherwise nothing is replaced,
                  unless an operator has said that they may be lost
    switch        a mark says that the new copy is complete; only then is the old data set aside and replaced
    no replica    a node that the record does not name as one sets a damaged copy aside, and copies nothing
    proof         the old data is removed when the new copy has become in sync; data that an operator gave up stays

A crash before the mark leaves the old data as it was; after a crash behind the mark the next start finishes the switch.
The new copy is the hall as of some index of the log; the follower gets the rest from its leader.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final, final

import msgspec

from longhall.broker.checkpoint import request_checkpoint
from longhall.broker.hall import Hall
from longhall.cluster.replication.roles import FullSyncProgress
from longhall.cluster.replication.sync_manifest import SyncManifest, read_sync_manifest
from longhall.cluster.replication.sync_verification import SyncVerification
from longhall.cluster.rpc.peers import Audience, Peers
from longhall.errors import Code, LonghallError
from longhall.log.layout import PARTITIONS, SHARDS, segment_path, snapshot_path
from longhall.log.snapshots import open_snapshot, read_snapshot
from longhall.shards.replica import contains
from longhall.world.ports import Disk, File, World

BEGIN: Final = "refetch-begin"
READ: Final = "refetch-read"
PIECE_BYTES: Final = 1024 * 1024
BYTES_A_SECOND: Final = 64 * 1024 * 1024
SYNCED_BYTES: Final = 16 * 1024 * 1024  # So that no sync has much to write.
FILES_AT_ONCE: Final = 8  # Small files wait for a request and a sync each, and these waits overlap.
ANSWER_S: Final = 60.0
PINNED_S: Final = 120.0  # After the last request of the follower.
LOOK_S: Final = 0.05
INCOMING: Final = "incoming"
WHOLE: Final = f"{INCOMING}/whole"
DIRECTORIES: Final = ("wal", SHARDS, PARTITIONS)
SET_ASIDE: Final = "set-aside"  # The copy that a full sync has replaced, until the new copy is proven.
GIVEN_UP: Final = "given-up"  # A copy that an operator gave up: it has entries that the new copy lacks.
GIVEN_UP_MAX: Final = 100

_log = logging.getLogger("longhall.full_sync")
_decoder = msgspec.msgpack.Decoder()


class FilePiece(msgspec.Struct, kw_only=True):
    """A request for a part of a file of the manifest."""

    token: int
    number: int
    position: int
    size: int


@final
class FullSyncSource:
    """The leader's side: it serves one follower after another. `on_begin` is called with the follower that begins."""

    def __init__(self, hall: Hall, peers: Peers, on_begin: Callable[[int], object]) -> None:
        self._hall = hall
        self._on_begin = on_begin
        self._token = 0
        self._node = 0
        self._snapshot = b""
        self._files: list[tuple[str, int]] = []
        self._bytes_done = 0
        self._preparing = False
        self._release: asyncio.TimerHandle | None = None
        peers.serve(BEGIN, self._begin, Audience.MEMBERS)
        peers.serve(READ, self._read, Audience.MEMBERS)

    def done(self, node: int) -> None:
        """This follower has connected: its full sync is over."""
        if node == self._node:
            self._unpin()

    def fetching(self) -> FullSyncProgress | None:
        """The full sync that is under way; None if there is none."""
        if not self._files:
            return None
        total = sum(size for _, size in self._files)
        return FullSyncProgress(node=self._node, bytes_done=min(self._bytes_done, total), bytes_total=total)

    async def _begin(self, node: int, asked: bytes) -> bytes:
        hall = self._hall
        if hall.replica is None or not hall.replica.leading:
            raise LonghallError(Code.NOT_LEADER, "this node does not lead")
        if (self._preparing or (hall.pinned and not self._is_read())) and node != self._node:
            raise LonghallError(Code.OVERLOADED, "another node does a full sync just now")
        self._unpin()
        self._on_begin(node)
        self._node = node
        self._preparing = True
        try:
            await self._checkpoint()
        finally:
            self._preparing = False
        found = read_snapshot(hall.world.disk, 0)
        if found is None or not hall.replica.leading:
            raise LonghallError(Code.NOT_READY, "there is no snapshot")
        self._token += 1
        self._pin()
        path = snapshot_path(0, found[0])
        file = hall.world.disk.open(path)
        self._snapshot = file.read_at(0, file.size())
        file.close()
        self._files = [(snapshot_path(0, 0), len(self._snapshot)), *_segments(hall, found[1])]
        self._bytes_done = 0
        return msgspec.msgpack.encode(SyncManifest(token=self._token, files=self._files))

    def _is_read(self) -> bool:
        """True if the follower has read everything. It may never follow, and the next one does not wait for that."""
        return bool(self._files) and self._bytes_done >= sum(size for _, size in self._files)

    async def _checkpoint(self) -> None:
        """Wait for a checkpoint with everything that is committed now, which the follower may have, and for the end of
        cleaning.
        """
        if await request_checkpoint(self._hall, ANSWER_S / 4):
            for _ in range(int(ANSWER_S / 4 / LOOK_S)):
                if not self._hall.cleaning:
                    return
                await asyncio.sleep(LOOK_S)
        raise LonghallError(Code.TIMED_OUT, "no checkpoint could be taken")

    async def _read(self, node: int, asked: bytes) -> bytes:
        piece = msgspec.msgpack.decode(asked, type=FilePiece)
        if piece.token != self._token or not self._hall.pinned or not 0 <= piece.number < len(self._files):
            raise LonghallError(Code.NOT_READY, "this checkpoint is no longer pinned")
        self._pin()
        size = min(piece.size, PIECE_BYTES)
        if size <= 0 or not 0 <= piece.position < self._files[piece.number][1]:
            raise LonghallError(Code.INVALID_REQUEST, f"there is no piece at {piece.position}")
        self._bytes_done += min(size, self._files[piece.number][1] - piece.position)
        if piece.number == 0:
            return self._snapshot[piece.position : piece.position + size]
        path, end = self._files[piece.number]
        file = self._hall.files.get(path)
        return await self._hall.world.janitor.read(file, piece.position, min(size, end - piece.position))

    def _pin(self) -> None:
        self._hall.pinned = True
        if self._release is not None:
            self._release.cancel()
        self._release = asyncio.get_running_loop().call_later(PINNED_S, self._unpin)

    def _unpin(self) -> None:
        self._hall.pinned = False
        self._snapshot = b""
        self._files = []
        if self._release is not None:
            self._release.cancel()
            self._release = None


def _segments(hall: Hall, body: bytes) -> list[tuple[str, int]]:
    """The segments of a snapshot. The cleaner may have made one smaller since."""
    found: list[tuple[str, int]] = []
    state: dict[str, Any] = _decoder.decode(body)
    for inner in state["shards"][1:]:
        for number, partition in inner["partitions"].items():
            for numbers in partition[0][2]:
                path = segment_path(number, int(numbers[0]))
                size = int(numbers[2])
                if size:
                    found.append((path, min(size, hall.files.get(path).size())))
    return found


class LogHistory(msgspec.Struct, frozen=True, kw_only=True):
    """The log of the copy that is to be replaced, as far as it is known. `given_up`: an operator gave it up."""

    epochs: list[tuple[int, int]]
    index: int
    committed: int
    nonces: dict[int, int] = {}
    given_up: bool = False


class IncompleteSource(LonghallError):
    """Entries that were committed here are not part of the leader's history."""


async def full_sync(
    world: World, peers: Peers, leader: int, bytes_a_second: int = BYTES_A_SECOND, history: LogHistory | None = None
) -> None:
    """Copy everything from the leader and replace the data here. The directory must not be in use.

    OSError or LonghallError if that fails, and then the old data is still here.
    """
    await full_sync_beside(world, peers, leader, bytes_a_second, history)
    finish_switch(world.disk)


async def full_sync_beside(
    world: World, peers: Peers, leader: int, bytes_a_second: int = BYTES_A_SECOND, history: LogHistory | None = None
) -> None:
    """The same while the directory is in use: the new copy lies beside the old data until `finish_switch`, which the
    next start does before anything else.
    """
    disk = world.disk
    answer = await peers.request(leader, BEGIN, b"", ANSWER_S)
    manifest = read_sync_manifest(answer)
    _log.info("a full sync begins", extra={"leader": leader, "files": len(manifest.files)})
    if disk.exists(INCOMING):
        disk.remove(INCOMING)
    for directory in DIRECTORIES:
        disk.make_directory(f"{INCOMING}/{directory}")
    snapshot = manifest.files[0][0]
    fetch = _Fetch(disk, peers, leader, manifest.token, bytes_a_second)
    await fetch.file(0, *manifest.files[0])
    _check_history(disk, snapshot, history)
    verification = SyncVerification(world, peers, leader, INCOMING, snapshot)
    await _fetch_segments(fetch, manifest.files, verification)
    await verification.finish()
    directories = {INCOMING: None}
    for path, _ in manifest.files:
        directory = f"{INCOMING}/{path}".rpartition("/")[0]
        while directory and directory not in directories:
            directories[directory] = None
            directory = directory.rpartition("/")[0]
    for directory in DIRECTORIES:
        directories[f"{INCOMING}/{directory}"] = None
    for directory in sorted(directories, reverse=True):
        disk.sync_directory(directory)
    _mark_complete(disk, history)


def set_copy_aside(disk: Disk) -> None:
    """Begin without a copy, and keep the old one beside it. It is for a node that is no replica any more and cannot
    read what it has: if the node is wanted as a replica again, its leader gives it everything.
    """
    if disk.exists(INCOMING):
        disk.remove(INCOMING)
    for directory in DIRECTORIES:
        disk.make_directory(f"{INCOMING}/{directory}")
        disk.sync_directory(f"{INCOMING}/{directory}")
    _mark_complete(disk, None)
    finish_switch(disk)


def _mark_complete(disk: Disk, history: LogHistory | None) -> None:
    """Say that the new copy is complete, and where the old one goes."""
    mark = disk.open(WHOLE, create=True)
    mark.write_at(0, (_place_for_old(disk, history).encode(),))
    disk.sync_now(mark)
    mark.close()
    disk.sync_directory(INCOMING)
    disk.sync_directory("")


async def _fetch_segments(fetch: _Fetch, files: list[tuple[str, int]], verification: SyncVerification) -> None:
    """Fetch every file behind the snapshot, several at a time. The first failure ends all."""
    numbers = iter(range(1, len(files)))

    async def work() -> None:
        for number in numbers:
            await fetch.file(number, *files[number])
            await verification.fetched(files[number][0])

    tasks = [asyncio.ensure_future(work()) for _ in range(min(FILES_AT_ONCE, len(files)))]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@final
class _Fetch:
    """Fetches files of a manifest into the directory of the new copy, all together at a bounded rate."""

    def __init__(self, disk: Disk, peers: Peers, leader: int, token: int, bytes_a_second: int) -> None:
        self._disk = disk
        self._peers = peers
        self._leader = leader
        self._token = token
        self._bytes_a_second = bytes_a_second
        self._next_s = 0.0  # When the next piece may be written, in the time of the loop.

    async def file(self, number: int, path: str, size: int) -> None:
        """Fetch the file with this number of the manifest, and sync it."""
        target = f"{INCOMING}/{path}"
        self._disk.make_directory(target.rpartition("/")[0])
        file = self._disk.open(target, create=True)
        try:
            position = 0
            while position < size:
                data = await self._piece(number, position)
                if not data or len(data) > min(PIECE_BYTES, size - position):
                    raise LonghallError(Code.STORAGE_DAMAGED, f"{path} is not what the leader's manifest says")
                file.write_at(position, (data,))
                position += len(data)
                await self._pause(len(data))
                if position < size and position % SYNCED_BYTES < PIECE_BYTES:
                    await _synced(self._disk, file)
            await _synced(self._disk, file)
        finally:
            file.close()

    async def _piece(self, number: int, position: int) -> bytes:
        piece = FilePiece(token=self._token, number=number, position=position, size=PIECE_BYTES)
        return await self._peers.request(self._leader, READ, msgspec.msgpack.encode(piece), ANSWER_S)

    async def _pause(self, count: int) -> None:
        """Keep to the rate: clients that are served meanwhile come first."""
        now_s = asyncio.get_running_loop().time()
        self._next_s = max(self._next_s, now_s) + count / self._bytes_a_second
        await asyncio.sleep(self._next_s - now_s)


async def _synced(disk: Disk, file: File) -> None:
    """Sync beside the loop, because the doors may be open."""
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def on_synced(error: OSError | None) -> None:
        if done.cancelled():
            return
        if error is None:
            done.set_result(None)
        else:
            done.set_exception(error)

    disk.sync([file], on_synced, background=True)
    await done


def _check_history(disk: Disk, path: str, history: LogHistory | None) -> None:
    """Refuse a copy whose history lacks entries that were committed here. Without a history it is unreadable."""
    if history is None or history.given_up or not history.committed:
        return
    file = disk.open(f"{INCOMING}/{path}")
    data = file.read_at(0, file.size())
    file.close()
    state: dict[str, Any] = _decoder.decode(open_snapshot(data, path))["replica"]
    epochs = [(int(epoch), int(first)) for epoch, first in state["epochs"]]
    nonces = (state.get("nonces", {}), history.nonces)
    if not contains(epochs, state["index"], history.epochs, history.index, history.committed, nonces):
        raise IncompleteSource(
            Code.STORAGE_DAMAGED,
            f"the leader's copy lacks entries that were committed here, up to {history.committed}: nothing is replaced",
        )


def _place_for_old(disk: Disk, history: LogHistory | None) -> str:
    """The directory into which the switch moves the old copy. Empty if it is removed: it was made by a full sync and
    never proven, and the copy before it is still set aside.
    """
    if history is not None and history.given_up:
        for number in range(1, GIVEN_UP_MAX + 1):
            if not disk.exists(f"{GIVEN_UP}-{number}"):
                return f"{GIVEN_UP}-{number}"
        raise LonghallError(Code.STORAGE_FULL, f"there are {GIVEN_UP_MAX} copies that were given up: remove some")
    return "" if disk.exists(SET_ASIDE) else SET_ASIDE


def finish_switch(disk: Disk) -> bool:
    """Replace the old copy with a complete new one and set the old one aside; remove an incomplete new one. Every start
    does it before anything is opened. True if there was a complete one.
    """
    if not disk.exists(INCOMING):
        return False
    whole = disk.exists(WHOLE)
    if whole:
        aside = _read_mark(disk)
        for name in DIRECTORIES:
            if disk.exists(f"{INCOMING}/{name}"):
                _make_room(disk, name, aside)
                disk.rename(f"{INCOMING}/{name}", name)
                disk.sync_directory("")
                disk.sync_directory(INCOMING)
    disk.remove(INCOMING)
    disk.sync_directory("")
    return whole


def _read_mark(disk: Disk) -> str:
    mark = disk.open(WHOLE)
    try:
        return mark.read_at(0, mark.size()).decode()
    finally:
        mark.close()


def _make_room(disk: Disk, name: str, aside: str) -> None:
    """Move or remove a directory of the old copy. A crash may come between any two steps; then all are done again."""
    if not disk.exists(name):
        return
    if not aside:
        disk.remove(name)
    else:
        disk.make_directory(aside)
        disk.rename(name, f"{aside}/{name}")
        disk.sync_directory(aside)
    disk.sync_directory("")


def replaced_copies(disk: Disk) -> list[str]:
    """The paths that can be removed when the new copy is proven; the last is the directory itself."""
    if not disk.exists(SET_ASIDE):
        return []
    paths = [
        f"{SET_ASIDE}/{name}/{inner}"
        for name in DIRECTORIES
        if disk.exists(f"{SET_ASIDE}/{name}")
        for inner in disk.list(f"{SET_ASIDE}/{name}")
    ]
    return [*paths, SET_ASIDE]

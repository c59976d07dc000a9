"""Checking what was fetched from the leader, before it takes the place of what is here.

A leader gives its files as they are, and what nobody has read for a while may be damaged without anybody knowing.
Copied as it is, the damage would spread, and in the end replace the last good copy. So every batch is checked, beside
the loop, and what is damaged is put right: with what this node had before, or with what another member has. What nobody
has is kept as it is: it is refused to readers, here as at the leader, until somebody comes back who has it.

The index of each segment is made on the way, since all of it is read.
"""

from __future__ import annotations

import logging
from typing import Any, Final, final

import msgspec

from longhall.cluster.replication.repair_source import BatchState, are_of, gather, tell
from longhall.cluster.replication.replica_repair import Patches
from longhall.cluster.rpc.peers import Peers
from longhall.errors import Code, LonghallError
from longhall.log.epochs import Epochs
from longhall.log.layout import segment_path
from longhall.log.segment_repair import STRETCH_BYTES_MAX, Stretch, valid_headers
from longhall.log.snapshots import open_snapshot
from longhall.world.ports import World

FILES_MAX: Final = 64  # Checked together,
BYTES_MAX: Final = 64 * 1024 * 1024  # or when there is so much of them.

_log = logging.getLogger("longhall.refetch")
_decoder = msgspec.msgpack.Decoder()


@final
class _Expected:
    """A segment, as the snapshot has it."""

    def __init__(self, path: str, partition: int, size_bytes: int, next_offset: int, epochs: Epochs) -> None:
        self.path = path
        self.partition = partition
        self.size_bytes = size_bytes
        self.next_offset = next_offset
        self.epochs = epochs


@final
class SyncVerification:
    """See the module. Made when the snapshot is there, at `snapshot` in the directory `incoming`."""

    def __init__(self, world: World, peers: Peers, leader: int, incoming: str, snapshot: str) -> None:
        self._world = world
        self._peers = peers
        self._leader = leader
        self._others = sorted(set(peers.addresses) - {leader, peers.node})
        self._incoming = incoming
        self._segments = _segments(world, f"{incoming}/{snapshot}")
        self._waiting: list[_Expected] = []

    async def fetched(self, path: str) -> None:
        """This segment is there."""
        segment = self._segments.pop(path, None)
        if segment is None:
            raise LonghallError(Code.STORAGE_DAMAGED, f"the leader gave {path}, which its snapshot does not know")
        self._waiting.append(segment)
        if len(self._waiting) >= FILES_MAX or sum(one.size_bytes for one in self._waiting) >= BYTES_MAX:
            await self.finish()

    async def finish(self) -> None:
        """Check what is there and was not checked yet."""
        waiting, self._waiting = self._waiting, []
        if not waiting:
            return
        found: Any = await self._world.janitor.run(
            "find_damage", {"segments": [self._written(one) for one in waiting], "index": True}
        )
        for segment, damaged in zip(waiting, found["damaged"], strict=True):
            if damaged:
                await self._mend(segment, damaged)

    def _written(self, segment: _Expected) -> dict[str, object]:
        """The cleaner of the leader may have made it smaller since the snapshot, and whole at that."""
        path = f"{self._incoming}/{segment.path}"
        file = self._world.disk.open(path)
        try:
            size = min(segment.size_bytes, file.size())
        finally:
            file.close()
        segment.size_bytes = size
        return {"path": path, "size_bytes": size, "next_offset": segment.next_offset}

    async def _mend(self, segment: _Expected, damaged: list[list[int]]) -> None:
        patches = Patches(self._world, self._written(segment))
        for numbers in damaged:
            data = await self._find(segment, Stretch(*numbers))
            if data:
                await patches.add(numbers, data)
        await patches.finish()
        told = {"partition": segment.partition, "segment": segment.path, "damaged": len(damaged)}
        _log.warning("a segment is damaged at the leader", extra={**told, "put_right": len(patches.mended)})
        await self._world.janitor.run("rebuild_index", {"path": f"{self._incoming}/{segment.path}"})
        await tell(self._peers, self._leader, segment.partition, damaged[0][2])

    async def _find(self, segment: _Expected, stretch: Stretch) -> bytes:
        """What belongs into this stretch, if anybody has it."""
        data = await self._own(segment, stretch)
        if data or stretch.size_bytes > STRETCH_BYTES_MAX:
            return data
        found, data = await gather(self._peers, self._others, segment.partition, stretch, segment.epochs)
        if found is BatchState.OTHERWISE:  # The cleaner was there. Whoever has it should lead, and then it is fetched.
            await tell(self._peers, self._leader, segment.partition, stretch.first)
            raise LonghallError(Code.STORAGE_DAMAGED, f"{segment.path} is damaged at the leader, and not elsewhere")
        return data

    async def _own(self, segment: _Expected, stretch: Stretch) -> bytes:
        """What was here before: the same, if it was written under the same epoch."""
        arguments: dict[str, object] = {
            "path": segment.path,
            "first": stretch.first,
            "behind": stretch.behind,
            "size_bytes": stretch.size_bytes,
        }
        found: Any = await self._world.janitor.run("read_stretch", arguments)
        headers = valid_headers(found["data"], stretch.first, stretch.behind)
        return found["data"] if headers and are_of(headers, segment.epochs) else b""


def _segments(world: World, path: str) -> dict[str, _Expected]:
    """The segments that a snapshot refers to, by their paths. A snapshot that is damaged is refused."""
    file = world.disk.open(path)
    try:
        body = open_snapshot(file.read_at(0, file.size()), path)
    finally:
        file.close()
    found: dict[str, _Expected] = {}
    state: dict[str, Any] = _decoder.decode(body)
    for inner in state["shards"][1:]:
        for number, partition in inner["partitions"].items():
            epochs = Epochs()
            epochs.restore([(int(epoch), int(start)) for epoch, start in partition[0][3]])
            for numbers in partition[0][2]:
                one = segment_path(number, int(numbers[0]))
                found[one] = _Expected(one, number, int(numbers[2]), int(numbers[1]), epochs)
    return found

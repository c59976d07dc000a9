"""Verification of a full sync: every fetched batch is checked before the new copy replaces the old one.

A leader sends its files as they are, and segments that were not read for a while may have unknown damage. A plain copy
would spread the damage, and in the end replace the last good copy. So every batch is checked beside the loop, and a
damaged one is repaired from the old copy of this node or from another replica. A batch that is damaged everywhere stays
as it is: it is refused to readers, here as at the leader, until a replica comes back that has it.

The index of each segment is built on the way, because the whole segment is read.
"""

from __future__ import annotations

import logging
from typing import Any, Final, final

import msgspec

from longhall.cluster.replication.repair_source import BatchState, are_of, gather, report_damage
from longhall.cluster.replication.replica_repair import Patches
from longhall.cluster.rpc.peers import Peers
from longhall.errors import Code, LonghallError
from longhall.log.epochs import Epochs
from longhall.log.layout import segment_path
from longhall.log.segment_repair import STRETCH_BYTES_MAX, Stretch, valid_headers
from longhall.log.snapshots import open_snapshot
from longhall.world.ports import World

FILES_MAX: Final = 64  # Checked in one job,
BYTES_MAX: Final = 64 * 1024 * 1024  # or when they have this many bytes.

_log = logging.getLogger("longhall.full_sync")
_decoder = msgspec.msgpack.Decoder()


@final
class _Expected:
    """A segment as the snapshot describes it."""

    def __init__(self, path: str, partition: int, size_bytes: int, next_offset: int, epochs: Epochs) -> None:
        self.path = path
        self.partition = partition
        self.size_bytes = size_bytes
        self.next_offset = next_offset
        self.epochs = epochs


@final
class SyncVerification:
    """The verification of one full sync. The snapshot has been fetched, to `snapshot` in the directory `incoming`."""

    def __init__(self, world: World, peers: Peers, leader: int, incoming: str, snapshot: str) -> None:
        self._world = world
        self._peers = peers
        self._leader = leader
        self._others = sorted(set(peers.addresses) - {leader, peers.node})
        self._incoming = incoming
        self._segments = _segments(world, f"{incoming}/{snapshot}")
        self._waiting: list[_Expected] = []

    async def fetched(self, path: str) -> None:
        """This segment has been fetched."""
        segment = self._segments.pop(path, None)
        if segment is None:
            raise LonghallError(Code.STORAGE_DAMAGED, f"the leader gave {path}, which its snapshot does not know")
        self._waiting.append(segment)
        if len(self._waiting) >= FILES_MAX or sum(one.size_bytes for one in self._waiting) >= BYTES_MAX:
            await self.finish()

    async def finish(self) -> None:
        """Check the segments that were fetched and not checked yet."""
        waiting, self._waiting = self._waiting, []
        if not waiting:
            return
        found: Any = await self._world.janitor.run(
            "find_damage", {"segments": [self._written(one) for one in waiting], "index": True}
        )
        for segment, damaged in zip(waiting, found["damaged"], strict=True):
            if damaged:
                await self._repair(segment, damaged)

    def _written(self, segment: _Expected) -> dict[str, object]:
        """The arguments of the check. The leader's cleaner may have made the segment smaller since the snapshot."""
        path = f"{self._incoming}/{segment.path}"
        file = self._world.disk.open(path)
        try:
            size = min(segment.size_bytes, file.size())
        finally:
            file.close()
        segment.size_bytes = size
        return {"path": path, "size_bytes": size, "next_offset": segment.next_offset}

    async def _repair(self, segment: _Expected, damaged: list[list[int]]) -> None:
        patches = Patches(self._world, self._written(segment))
        for numbers in damaged:
            data = await self._find(segment, Stretch(*numbers))
            if data:
                await patches.add(numbers, data)
        await patches.finish()
        details = {"partition": segment.partition, "segment": segment.path, "damaged": len(damaged)}
        _log.warning("a segment is damaged at the leader", extra={**details, "repaired": len(patches.mended)})
        await self._world.janitor.run("rebuild_index", {"path": f"{self._incoming}/{segment.path}"})
        await report_damage(self._peers, self._leader, segment.partition, damaged[0][2])

    async def _find(self, segment: _Expected, stretch: Stretch) -> bytes:
        """The batches that belong into this stretch; empty if no replica has them."""
        data = await self._own(segment, stretch)
        if data or stretch.size_bytes > STRETCH_BYTES_MAX:
            return data
        found, data = await gather(self._peers, self._others, segment.partition, stretch, segment.epochs)
        if found is BatchState.OTHERWISE:
            # A cleaner has rewritten the segment. The replica that has the batches should lead, and is then the source.
            await report_damage(self._peers, self._leader, segment.partition, stretch.first)
            raise LonghallError(Code.STORAGE_DAMAGED, f"{segment.path} is damaged at the leader, and not elsewhere")
        return data

    async def _own(self, segment: _Expected, stretch: Stretch) -> bytes:
        """The batches of the old copy of this node, if they were written under the same epoch."""
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
    """The segments of a snapshot, by their paths. A damaged snapshot is refused."""
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

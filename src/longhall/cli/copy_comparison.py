"""The comparison of the data directories of several stopped nodes of one cluster.

Every copy is recovered as its node would, on a disk that is not written to, and advanced to the same log entry: the
last one that some node knows to be committed. There the states are compared table by table (`broker.state_digest`), and
the batches of every partition by offset and checksum. Of a copy whose log ends before that entry only the batches are
compared, as far as both have them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from itertools import combinations
from typing import Any, Final, NamedTuple, TypeVar, final

from longhall.broker.apply import apply_pending
from longhall.broker.events import StateMarked
from longhall.broker.hall import Hall
from longhall.broker.options import HallOptions
from longhall.broker.partition import Partition
from longhall.broker.recovery import Identity, read_identity
from longhall.broker.replica_recovery import RecoveredReplica, recover_replica
from longhall.broker.state_digest import PARTIAL, Tables, differing, digest_slice
from longhall.cli.overlay_disk import OverlayDisk
from longhall.cluster.membership.member_file import MEMBER_FILE, read_member_file
from longhall.errors import Code, LonghallError
from longhall.log.background_jobs import rebuild_index
from longhall.log.segment_reads import Supplied
from longhall.records.batch import parse_header
from longhall.shards.replica import Replica, common_index
from longhall.world.ports import Disk, File
from longhall.world.real.clock import RealClock
from longhall.world.real.entropy import RealEntropy
from longhall.world.real.network import RealNetwork

READ_BYTES: Final = 1024 * 1024
NAMES_MAX: Final = 8  # Of differing objects in a line.

T = TypeVar("T")
Batches = dict[int, tuple[int, int]]  # By first offset: the next offset, and the checksum.


@final
class _NoJanitor:
    async def run(self, job: str, arguments: dict[str, object]) -> dict[str, object]:
        raise LonghallError(Code.NOT_READY, f"nobody does {job} here")

    async def read(self, file: File, position: int, size: int) -> bytes:
        return file.read_at(position, size)

    async def compute(self, function: Callable[[], T]) -> T:
        return function()


@final
class _ReadOnlyWorld:
    """A world for a hall that is only recovered and read."""

    def __init__(self, disk: Disk) -> None:
        self.clock = RealClock()
        self.entropy = RealEntropy()
        self.network = self.peers_network = RealNetwork()
        self.janitor = _NoJanitor()
        self.disk: Disk = disk

    def close(self) -> None:
        """Does nothing: there are no helper processes."""


@final
class Copy:
    """One directory. Raises LonghallError if it is not of a cluster node, or cannot be recovered."""

    def __init__(self, directory: str, disk: Disk) -> None:
        self.directory = directory
        found = read_identity(disk)
        if found is None or not found.member or not disk.exists(MEMBER_FILE):
            raise LonghallError(Code.INVALID_REQUEST, f"{directory} is not the directory of a node of a cluster")
        self.identity: Identity = found
        self.world = _ReadOnlyWorld(OverlayDisk(disk))
        self.node = read_member_file(disk, self.world.entropy).node
        self.hall = Hall(self.world, HallOptions(shards=found.shards))
        self._rejoined: RecoveredReplica = recover_replica(self.hall)
        assert self.hall.replica is not None
        self.replica: Replica = self.hall.replica
        self.committed = self.replica.committed
        self.epochs = self.replica.epochs.snapshot()

    def advance(self, index: int) -> None:
        """Apply everything up to this entry."""
        apply_pending(self.replica, self._rejoined.replay, index - self.replica.applied)

    def tables(self) -> Tables:
        """The digests of everything that does not depend on the start of this process."""
        tables = digest_slice(self.hall, StateMarked(slice=0, slices=1))
        return {table: objects for table, objects in tables.items() if table not in PARTIAL}


class Difference(NamedTuple):
    """A difference between two copies."""

    nodes: tuple[int, int]
    what: str


@final
class Comparison:
    """The result of comparing some copies."""

    def __init__(self, copies: list[Copy]) -> None:
        self.copies = copies
        self.differences: list[Difference] = []
        self.notes: list[str] = []
        self.index = max(copy.committed for copy in copies)  # Where the states are compared,
        self.common = self.index  # and up to where all logs agree.
        self.compared: list[Copy] = []
        self.behind: list[Copy] = []

    def run(self) -> None:
        """Compare everything."""
        best = max(self.copies, key=lambda copy: (copy.committed, copy.replica.index))
        self.common = min(_common(best, copy) for copy in self.copies)
        for copy in self.copies:
            agreed = _common(best, copy)
            if agreed < copy.committed:
                what = f"entries from {agreed + 1} on, which both nodes hold to be committed, are of different epochs"
                self.differences.append(Difference((best.node, copy.node), what))
            elif agreed < self.index:
                behind = self.index - agreed
                told = "only its messages are compared"
                self.notes.append(f"node {copy.node} lacks the last {behind} committed entries: {told}")
                self.behind.append(copy)
            else:
                copy.advance(self.index)
                self.compared.append(copy)
        tables = {copy.node: copy.tables() for copy in self.compared}
        for one, other in combinations(tables, 2):
            self._compare_tables((one, other), tables[one], tables[other])
        present = [*self.compared, *self.behind]
        for number in sorted({number for copy in present for number in copy.hall.partitions}):
            kept = {copy.node: copy.hall.partitions[number] for copy in present if number in copy.hall.partitions}
            found = {node: batches_of(partition) for node, partition in kept.items()}
            for pair in combinations(kept, 2):
                self._compare_batches(pair, kept, found)

    def agreeing(self) -> list[list[int]]:
        """The nodes in groups whose copies agree."""
        against = {nodes for one in self.differences for nodes in (one.nodes, one.nodes[::-1])}
        groups: list[list[int]] = []
        for copy in self.copies:
            for group in groups:
                if all((one, copy.node) not in against for one in group):
                    group.append(copy.node)
                    break
            else:
                groups.append([copy.node])
        return groups

    def _compare_tables(self, nodes: tuple[int, int], one: Tables, other: Tables) -> None:
        for table, objects in one.items():
            names = differing(objects, other[table])
            if names:
                self.differences.append(Difference(nodes, f"{table}: {_first_names(names)}"))

    def _compare_batches(
        self, nodes: tuple[int, int], kept: Mapping[int, Partition], found: Mapping[int, Batches]
    ) -> None:
        """The batches of one partition, as far as both nodes have them."""
        partition = kept[nodes[0]]
        start = max(kept[node].log.start_offset for node in nodes)
        behind = min(kept[node].log.next_offset for node in nodes)
        here, there = ({at: one for at, one in found[node].items() if start <= at < behind} for node in nodes)
        changed = sorted(offset for offset in here.keys() & there.keys() if here[offset] != there[offset])
        lacking = sorted(here.keys() ^ there.keys())
        name = f"{partition.topic}-{partition.number}"
        if (changed or lacking) and (partition.options.compacts or partition.listeners):
            self.notes.append(f"{name} is cleaned by each node in its own time, and lies differently on {nodes}")
        elif changed:
            self.differences.append(Difference(nodes, f"messages of {name} from offset {changed[0]} on"))
        elif lacking:
            what = f"messages of {name} at offset {lacking[0]}: only one of the two has them"
            self.differences.append(Difference(nodes, what))


def batches_of(partition: Partition) -> Batches:
    """Every batch of a partition's log. A batch that cannot be read has the checksum -1."""
    found: Batches = {}
    for first, behind, crc in _walk(partition):
        found[first] = (behind, crc)
    return found


def _walk(partition: Partition) -> Iterator[tuple[int, int, int]]:
    log = partition.log
    offset = log.start_offset
    supplied: Supplied | None = None
    while offset < log.next_offset:
        result = log.read(offset, READ_BYTES, log.next_offset, supplied)
        supplied = None
        if result.cold is not None:
            cold = result.cold
            if cold.rebuild is not None:
                place: dict[str, object] = {"partition": log.partition, "base_offset": cold.rebuild.base_offset}
                rebuild_index(log._files.disk, place)
                supplied = Supplied(cold.path, cold.position, b"", True, cold.version)
            else:
                data = log._files.get(cold.path).read_at(cold.position, cold.size)
                supplied = Supplied(cold.path, cold.position, data, version=cold.version)
            continue
        data = b"".join(result.buffers)
        if result.code is not None or not data:
            yield offset, offset + 1, -1
            offset += 1
            continue
        at = 0
        while at < len(data):
            header = parse_header(data, at)
            yield header.base_offset, header.next_offset, header.crc
            at += header.size_bytes
            offset = header.next_offset


def compare(directories: dict[str, Disk]) -> Comparison:
    """Compare these directories. LonghallError if one of them cannot be read, or if they are not of one hall."""

    async def look() -> Comparison:
        copies = [Copy(directory, disk) for directory, disk in directories.items()]
        if len({copy.identity.hall_id for copy in copies}) > 1:
            raise LonghallError(Code.INVALID_REQUEST, "the directories are not of the same hall")
        if len({copy.node for copy in copies}) < len(copies):
            raise LonghallError(Code.INVALID_REQUEST, "two of the directories are of the same node")
        comparison = Comparison(copies)
        comparison.run()
        return comparison

    return asyncio.run(look())


def facts_of(comparison: Comparison) -> list[dict[str, Any]]:
    """A row for each copy."""
    best = max(copy.replica.index for copy in comparison.copies)
    return [
        {
            "node": copy.node,
            "directory": copy.directory,
            "epoch": copy.replica.epoch,
            "last_index": copy.replica.index,
            "committed_index": copy.committed,
            "behind": best - copy.replica.index,
            "epochs": [list(epoch) for epoch in copy.epochs],
            "partitions": len(copy.hall.partitions),
            "queues": len(copy.hall.queues),
            "compared": copy in comparison.compared,
        }
        for copy in comparison.copies
    ]


def _common(one: Copy, other: Copy) -> int:
    return common_index(one.epochs, one.replica.index, other.epochs, other.replica.index)


def _first_names(names: list[str]) -> str:
    more = f" and {len(names) - NAMES_MAX} more" if len(names) > NAMES_MAX else ""
    return ", ".join(names[:NAMES_MAX]) + more

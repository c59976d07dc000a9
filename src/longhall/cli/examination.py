"""The examination of a data directory as recovery would see it, without changing it.

What was acknowledged must be intact: the snapshots, the write-ahead log up to its horizon, and the parts of segments
that a snapshot or the log vouches for. What lies behind them (a torn tail, bytes that recovery writes again) is no
damage. Short checks always run; with `verify` every batch that is vouched for is read and its checksum verified.

The directory of a cluster node has one snapshot of all shards, and notes in its log: the committed index, and
truncations. Entries that these notes do not commit are only counted.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple, final

import msgspec

from longhall.broker.catalogue import Catalogue
from longhall.broker.events import CommittedTo, Truncated, catalogue_decoder, shard_decoder
from longhall.broker.options import HallOptions
from longhall.broker.recovery import FORMAT_MAX, Identity
from longhall.broker.scrub_report import read_progress
from longhall.cluster.membership.member_file import read_member_file
from longhall.errors import LonghallError
from longhall.log.background_jobs import verify_segment
from longhall.log.frames import BATCH, BATCH_CONTINUES, EVENT, REFERENCE, STARTS_SEGMENT, Entry, Frame
from longhall.log.layout import IDENTITY, segment_path
from longhall.log.snapshots import read_snapshot
from longhall.log.wal import FILE_BYTES_MIN, Damage, Wal
from longhall.records.batch import CRC_COVERS_FROM, parse_header
from longhall.records.crc import crc_of
from longhall.shards.replica import Replica
from longhall.shards.shard import CATALOGUE
from longhall.world.ports import Disk

_REFERENCES_CHECKED_MAX: Final = 1_000_000

Progress = Callable[[int, int], None]  # Bytes done, bytes in all.


class Severity(enum.StrEnum):
    """The severity of a finding."""

    NOTE = "note"
    DAMAGE = "damage"


class Finding(NamedTuple):
    """A fact that an operator should know."""

    severity: Severity
    place: str
    text: str


class _SnapshotSegment(NamedTuple):
    """A segment as a snapshot has it."""

    partition: int
    base_offset: int
    size_bytes: int
    active: bool


@final
class _NoEntropy:
    """A source of randomness for reading, which draws nothing."""

    def bytes(self, size: int) -> bytes:
        return bytes(size)

    def below(self, bound: int) -> int:
        return 0


@final
class Examination:
    """The examination of one disk; `run` fills `facts` and `findings`."""

    def __init__(self, disk: Disk) -> None:
        self.facts: dict[str, object] = {}
        self.findings: list[Finding] = []
        self.replica: Replica | None = None  # Of the directory of a node of a cluster.
        self.applied_index = 0  # Of its snapshot.
        self._disk = disk
        self._catalogue = Catalogue(HallOptions())
        self._segments: list[_SnapshotSegment] = []
        self._bases: dict[int, int] = {}  # The segment that each partition writes to.
        self._references: list[tuple[int, int, int, int, int]] = []  # Partition, base, position, size, CRC.
        self._positions: list[int] = []
        self._lost: list[tuple[int, int, int]] = []
        self._names: dict[int, str] = {}  # Of partitions that exist; the others were deleted since.

    @property
    def damaged(self) -> bool:
        """True if something that was acknowledged is missing or damaged."""
        return any(finding.severity is Severity.DAMAGE for finding in self.findings)

    def run(self, verify: bool, progress: Progress) -> None:
        """Examine everything. Raises LonghallError if the directory cannot be read at all."""
        identity = self._read_identity()
        if identity.member:
            self._read_member(identity)
        else:
            for shard in range(identity.shards + 1):
                self._read_snapshot(shard)
        self._read_log()
        for topic in self._catalogue.topics.values():
            self._names.update({partition: f"{topic.name}-{at}" for at, partition in enumerate(topic.partitions)})
        for queue in self._catalogue.queues.by_name.values():
            self._names.update(dict.fromkeys(queue.lanes, f"{queue.name}, hidden"))
        self._names.update(dict.fromkeys(self._catalogue.parts, "a large message"))
        for partition, first, behind in self._lost:
            if partition in self._names:
                place = self._names[partition]
                self._damage(place, f"offsets {first} to {behind - 1} were lost in an earlier recovery")
        self._check_sizes()
        self._read_scrub()
        self.facts["topics"] = len(self._catalogue.topics)
        self.facts["partitions"] = sum(len(topic.partitions) for topic in self._catalogue.topics.values())
        self.facts["segments"] = len(self._segments)
        self.facts["segment_bytes"] = sum(segment.size_bytes for segment in self._segments)
        if verify:
            self._verify(progress)

    def _damage(self, place: str, text: str) -> None:
        self.findings.append(Finding(Severity.DAMAGE, place, text))

    def _note(self, place: str, text: str) -> None:
        self.findings.append(Finding(Severity.NOTE, place, text))

    def _read_identity(self) -> Identity:
        file = self._disk.open(IDENTITY)
        try:
            identity = msgspec.json.decode(file.read_at(0, file.size()), type=Identity)
        finally:
            file.close()
        self.facts.update(hall_id=identity.hall_id, format=identity.format, shards=identity.shards)
        if identity.format > FORMAT_MAX:
            self._note(IDENTITY, f"format {identity.format} is newer than this version knows ({FORMAT_MAX})")
        return identity

    def _read_snapshot(self, shard: int) -> None:
        try:
            found = read_snapshot(self._disk, shard)
        except LonghallError as failure:
            self._damage(f"shards/{shard:04d}", str(failure))
            return
        self._positions.append(0 if found is None else found[0])
        if found is None:
            return
        self._take_state(shard, msgspec.msgpack.decode(found[1], strict=False))

    def _read_member(self, identity: Identity) -> None:
        """Read the one snapshot of a cluster node, with its replica and the states of all shards."""
        card = read_member_file(self._disk, _NoEntropy())
        self.facts.update(node=card.node, stopped_cleanly=card.clean)
        replica = self.replica = Replica(identity.shards + 1)
        try:
            found = read_snapshot(self._disk, 0)
        except LonghallError as failure:
            self._damage("shards/0000", str(failure))
            return
        self._positions.append(0 if found is None else found[0])
        if found is not None:
            state: dict[str, Any] = msgspec.msgpack.decode(found[1], strict=False)
            replica.restore(state["replica"])
            self.applied_index = replica.applied
            for shard, inner in enumerate(state["shards"]):
                self._take_state(shard, inner)

    def _take_state(self, shard: int, state: dict[str, Any]) -> None:
        if shard == 0:
            self._catalogue.restore(state["catalogue"])
            return
        for partition, (numbers, _) in state["partitions"].items():
            segments = [(base, size) for base, _, size, _, _ in numbers[2]]
            for base, size in segments:
                self._segments.append(_SnapshotSegment(partition, base, size, base == segments[-1][0]))
            if segments:
                self._bases[partition] = segments[-1][0]
            self._lost += [(partition, first, behind) for first, behind in numbers[4]]

    def _read_log(self) -> None:
        wal = Wal(self._disk, FILE_BYTES_MIN)
        frames = entries = 0
        start = min(self._positions, default=0)
        end = start
        try:
            for found in wal.recover(start):
                if isinstance(found, Damage):
                    self._damage(
                        "wal", f"positions {found.position} to {found.next_position} were promised and are lost"
                    )
                    continue
                frames += 1
                entries += len(found.entries)
                end = found.position + found.size_bytes
                promised = found.position < wal.horizon
                if self.replica is not None:
                    self._follow(self.replica, found)
                    continue
                for entry in found.entries:
                    self._note_entry(entry, promised)
        except LonghallError as failure:
            self._damage("wal", str(failure))
        finally:
            wal.close()
        if self.replica is not None:
            self.facts.update(epoch=self.replica.epoch, last_index=self.replica.index)
            self.facts.update(committed_index=self.replica.committed, applied_index=self.applied_index)
        self.facts.update(wal_start=start, wal_end=end, wal_frames=frames, wal_entries=entries)
        for position in sorted(wal.corrections):
            if position < end:
                self._damage("wal", f"a bit has flipped at position {position}; the next start puts it right")
        if wal.torn_bytes:
            self._note("wal", f"{wal.torn_bytes} bytes behind position {end} are not whole; the next start cuts them")
        if entries:
            self._note("wal", f"{entries} entries wait to be written to their segments; the next start does that")

    def _follow(self, replica: Replica, frame: Frame) -> None:
        """Take the entries and notes of a cluster node; committed entries are noted."""
        for entry in frame.entries:
            if entry.sequence:
                replica.take(entry, frame.time_ms)
                continue
            mark = shard_decoder.decode(entry.event())
            if isinstance(mark, Truncated):
                replica.truncate(mark.index)
            elif isinstance(mark, CommittedTo):
                replica.commit(mark.index)
        while (committed := replica.next_committed()) is not None:
            self._note_entry(committed, promised=True)
            replica.advance()

    def _read_scrub(self) -> None:
        """Report the last complete pass of the background scrub; its later findings are found here as well."""
        completed_ms = read_progress(self._disk).completed_ms
        said = (
            datetime.fromtimestamp(completed_ms / 1000, UTC).isoformat(timespec="seconds") if completed_ms else "never"
        )
        self.facts["scrubbed"] = said

    def _note_entry(self, entry: Entry, promised: bool) -> None:
        if entry.kind == EVENT:
            if entry.room() == CATALOGUE:
                self._catalogue.apply(catalogue_decoder.decode(entry.event()), replayed=True)
            return
        if entry.kind not in (BATCH, REFERENCE) or (entry.kind == BATCH and entry.flags & BATCH_CONTINUES):
            return
        header = parse_header(entry.batch(), 0)
        partition = entry.partition()
        if entry.flags & STARTS_SEGMENT or partition not in self._bases:
            self._bases[partition] = header.base_offset
        if entry.kind == REFERENCE and promised and len(self._references) < _REFERENCES_CHECKED_MAX:
            place = (partition, self._bases[partition], entry.segment_position(), header.size_bytes, header.crc)
            self._references.append(place)

    def _check_sizes(self) -> None:
        """Check that every segment of a snapshot exists and is long enough."""
        checked: list[_SnapshotSegment] = []
        for segment in self._segments:
            name = self._names.get(segment.partition)
            if name is None:
                continue  # Its topic was deleted after the snapshot; what is left of it will be removed.
            path = segment_path(segment.partition, segment.base_offset)
            if not self._disk.exists(path):
                if segment.size_bytes:
                    self._damage(path, f"a segment of {name} is missing")
                continue
            file = self._disk.open(path)
            size = file.size()
            file.close()
            if size < segment.size_bytes and segment.active:
                self._damage(path, f"{segment.size_bytes - size} bytes are missing at the end, in {name}")
            # A closed segment that is shorter than the snapshot says was compacted since.
            checked.append(segment._replace(size_bytes=min(size, segment.size_bytes)))
        self._segments = checked

    def _verify(self, progress: Progress) -> None:
        whole = sum(segment.size_bytes for segment in self._segments) + sum(place[3] for place in self._references)
        done = records = batches = 0
        for segment in self._segments:
            path = segment_path(segment.partition, segment.base_offset)
            result: dict[str, Any] = verify_segment(self._disk, {"path": path, "size_bytes": segment.size_bytes})
            records += result["record_count"]
            batches += result["batch_count"]
            for position, size, first, behind in result["damaged"]:
                until = f"to {behind - 1}" if behind >= 0 else "on"
                where = f"{size} bytes at {position}, {self._names[segment.partition]} from offset {first} {until}"
                self._damage(path, f"the checksum is wrong: {where}")
            done += segment.size_bytes
            progress(done, whole)
        for place in self._references:
            self._verify_reference(*place)
            done += place[3]
            progress(done, whole)
        self.facts.update(
            verified_bytes=done, verified_batches=batches + len(self._references), verified_records=records
        )

    def _verify_reference(self, partition: int, base_offset: int, position: int, size: int, crc: int) -> None:
        """Verify a large batch that the write-ahead log refers to; it is stored only in its segment."""
        path = segment_path(partition, base_offset)
        name = self._names.get(partition)
        if name is None:
            return
        if not self._disk.exists(path):
            self._damage(path, f"a segment of {name} is missing")
            return
        file = self._disk.open(path)
        try:
            data = file.read_at(position, size)
        finally:
            file.close()
        if len(data) != size or crc_of(data, CRC_COVERS_FROM, size) != crc:
            self._damage(path, f"the checksum is wrong: {size} bytes at {position}, {name}")

"""Recover: fill an empty hall from its data directory.

    snapshots   each shard's state as of some position of the write-ahead log
    scan        from the oldest of these positions, where the log ends: at the first frame, or the first large batch
                that a frame refers to, which is not whole and which nobody was promised
    replay      every entry before that end, shard by shard behind its snapshot, through the same code that applied it
    new epoch   each shard begins one, so that whatever an earlier leader still says is known as old

After a clean stop the log behind the snapshots is empty and no segment is opened. A stretch of the log that was
promised and cannot be read is reported; what it held is missing from its partitions and refused to readers, and nothing
is cut.
"""

from __future__ import annotations

from typing import Any, Final, final

import msgspec

from longhall.broker.events import (
    EpochStarted,
    PartitionEvent,
    SegmentsDropped,
    catalogue_decoder,
    encoder,
    epoch_decoder,
    partition_decoder,
)
from longhall.broker.hall import Hall
from longhall.broker.options import HallOptions
from longhall.errors import Code, LonghallError
from longhall.log.frames import BATCH, CONTINUED, CONTINUES, EVENT, REFERENCE, Entry, Frame
from longhall.log.layout import IDENTITY, PARTITIONS, SHARDS, segment_path
from longhall.log.snapshots import read_snapshot
from longhall.log.wal import Damage
from longhall.queues.chunks import Uploads
from longhall.queues.events import decoder as queue_decoder
from longhall.queues.redrive import Redrives
from longhall.queues.steps import MoveEvent, ParcelEvent, StagingEvent, WholeFreed, WholeHeld, WholeMade
from longhall.queues.wholes import Wholes
from longhall.records.batch import CRC_COVERS_FROM, parse_header
from longhall.records.crc import crc_of
from longhall.shards.shard import CATALOGUE, GROUPS, MOVES, PARCELS, QUEUES, SHARD, STAGING, TRANSACTIONS
from longhall.shards.shard import PARTITIONS as PARTITION_EVENTS
from longhall.topics.events import GroupEvent, TransactionEvent
from longhall.topics.groups import Groups
from longhall.topics.settings import GroupSettings, TransactionSettings
from longhall.topics.transactions import Transactions
from longhall.world.ports import Disk, Entropy

FORMAT: Final = 1

_group_decoder = msgspec.msgpack.Decoder(GroupEvent)
_transaction_decoder = msgspec.msgpack.Decoder(TransactionEvent)
_staging_decoder = msgspec.msgpack.Decoder(StagingEvent)
_move_decoder = msgspec.msgpack.Decoder(MoveEvent)
_parcel_decoder = msgspec.msgpack.Decoder(ParcelEvent)
_decoder = msgspec.msgpack.Decoder()


class Identity(msgspec.Struct, kw_only=True):
    """What `longhall.json` says: who this data directory is, and in which format."""

    format: int = FORMAT
    hall_id: str
    shards: int
    secret: str = ""  # Receipts are keyed with it.


@final
class Recovered:
    """What recovery found, for the log and the metrics."""

    def __init__(self) -> None:
        self.entries = 0
        self.torn_bytes_from = -1  # Where the log was cut, if it was.
        self.damage: list[Damage] = []
        self.skipped = 0  # Entries that mean nothing without what a damaged stretch held.


def identify(disk: Disk, entropy: Entropy, options: HallOptions) -> Identity:
    """The identity of the data directory, made if it is new. Fixes what can only be chosen once."""
    if disk.exists(IDENTITY):
        file = disk.open(IDENTITY)
        data = file.read_at(0, file.size())
        file.close()
        try:
            identity = msgspec.json.decode(data, type=Identity)
        except msgspec.DecodeError as error:
            raise LonghallError(Code.STORAGE_DAMAGED, f"{IDENTITY} cannot be read ({error}): restore it") from None
        if identity.format > FORMAT:
            raise LonghallError(
                Code.UNSUPPORTED_VERSION,
                f"the data directory has format {identity.format} and this version knows up to {FORMAT}: "
                "start the version that wrote it",
            )
        return identity
    if disk.list("wal") or disk.list(PARTITIONS):
        raise LonghallError(Code.STORAGE_DAMAGED, f"the directory holds data but no {IDENTITY}: restore it")
    identity = Identity(hall_id=entropy.bytes(16).hex(), shards=options.shards, secret=entropy.bytes(32).hex())
    file = disk.open(IDENTITY + ".new", create=True)
    file.write_at(0, (msgspec.json.encode(identity) + b"\n",))
    disk.sync_now(file)
    file.close()
    for directory in ("wal", PARTITIONS, SHARDS):
        disk.make_directory(directory)
    disk.rename(IDENTITY + ".new", IDENTITY)
    disk.sync_directory("")
    return identity


def recover(hall: Hall) -> Recovered:
    """Fill the hall. Waits for the disk: it runs before the doors open."""
    report = Recovered()
    _make_rooms(hall)
    positions, waiting = _restore_snapshots(hall)
    start = min(positions)
    durable = max(positions)  # A snapshot is published only when the log before it is synced.
    end = _find_end(hall, start, durable, report)
    if 0 in positions and hall.wal.start > 0:
        shard = positions.index(0)
        raise LonghallError(Code.STORAGE_DAMAGED, f"the snapshot of shard {shard} is gone: restore the data directory")
    replay = _Replay(hall, waiting, report)
    time_ms = 0
    for found in hall.wal.recover(start, durable):
        if isinstance(found, Damage):
            report.damage.append(found)
            continue
        if found.position >= end:
            break
        hall.time.not_before(found.time_ms)
        for entry in found.entries:
            if found.position >= positions[entry.shard]:
                replay.take(entry)
        time_ms = max(time_ms, found.time_ms)
    hall.wal.sync_recovered(end)
    hall.wal.resume(end, time_ms)
    _finish(hall, report)
    return report


def _make_rooms(hall: Hall) -> None:
    options = hall.options
    groups = GroupSettings(
        session_timeout_min_ms=options.group_session_timeout_min_ms,
        session_timeout_max_ms=options.group_session_timeout_max_ms,
        initial_rebalance_delay_ms=options.group_initial_rebalance_delay_ms,
        members_max=options.group_members_max,
        offsets_retention_ms=options.offsets_retention_ms,
    )
    transactions = TransactionSettings(
        timeout_max_ms=options.transaction_timeout_max_ms, idle_expiry_ms=options.transactional_id_expiry_ms
    )
    for _ in hall.shards[1:]:
        hall.groups.append(Groups(groups))
        hall.transactions.append(Transactions(transactions))
        hall.redrives.append(Redrives())
        hall.uploads.append(Uploads())
        hall.wholes.append(Wholes())


def _restore_snapshots(hall: Hall) -> tuple[list[int], dict[int, list[Any]]]:
    """Where each shard's snapshot stands, and the states of partitions that the catalogue does not know yet."""
    positions: list[int] = []
    waiting: dict[int, list[Any]] = {}
    for shard in hall.shards:
        found = read_snapshot(hall.world.disk, shard.number)
        positions.append(found[0] if found is not None else 0)
        if found is None:
            continue
        state = _decoder.decode(found[1])
        shard.sequence = shard.committed = state["sequence"]
        shard.epoch = state["epoch"]
        hall.wal.incarnation = max(hall.wal.incarnation, state["incarnation"] + 1)
        hall.time.not_before(state["time_ms"])
        now_ms = hall.time.now_ms()
        if shard.number == 0:
            hall.restore_catalogue(state["catalogue"])
            continue
        waiting.update(state["partitions"])
        if "queues" in state:  # Snapshots from before there were queues have none.
            hall.restore_queues(state["queues"])
            hall.redrives[shard.number - 1].restore(state["moves"])
        if "wholes" in state:  # Likewise.
            hall.uploads[shard.number - 1].restore(state["uploads"])
            hall.wholes[shard.number - 1].restore(state["wholes"])
        hall.groups[shard.number - 1].restore(state["groups"], now_ms)
        hall.transactions[shard.number - 1].restore(state["transactions"])
    _restore_partitions(hall, waiting)
    return positions, waiting


def _restore_partitions(hall: Hall, waiting: dict[int, list[Any]]) -> None:
    now_ms = hall.time.now_ms()
    for number in list(waiting):
        partition = hall.partitions.get(number)
        if partition is not None:
            partition.restore(waiting.pop(number), now_ms)


def _find_end(hall: Hall, start: int, durable: int, report: Recovered) -> int:
    """The position of the first frame that nobody was promised and that is not whole, with all it refers to."""
    end = start
    bases: dict[int, int] = {}
    for found in hall.wal.recover(start, durable):
        if isinstance(found, Damage):
            end = found.next_position
            continue
        if found.position >= hall.wal.horizon and not _references_whole(hall, found, bases):
            report.torn_bytes_from = found.position
            return found.position
        end = hall.wal.next_file_start(found.position) if found.is_last else found.position + found.size_bytes
        _note_segments(found, bases)
    return end


def _note_segments(frame: Frame, bases: dict[int, int]) -> None:
    """Remember in which segment each partition writes: references name only their place in it."""
    for entry in frame.rolls():
        bases[entry.partition()] = parse_header(entry.batch(), 0).base_offset


def _references_whole(hall: Hall, frame: Frame, bases: dict[int, int]) -> bool:
    _note_segments(frame, bases)
    for entry in frame.entries:
        if entry.kind == REFERENCE and not _reference_whole(hall, entry, bases):
            return False
    return True


def _reference_whole(hall: Hall, entry: Entry, bases: dict[int, int]) -> bool:
    number = entry.partition()
    base = bases.get(number, -1)
    if base < 0:
        partition = hall.partitions.get(number)
        if partition is None or not partition.log.segments:
            return False
        base = partition.log.segments[-1].base_offset
    path = segment_path(number, base)
    if not hall.world.disk.exists(path):
        return False
    header = parse_header(entry.batch(), 0)
    file = hall.files.get(path)
    data = file.read_at(entry.segment_position(), header.size_bytes)
    if len(data) != header.size_bytes or crc_of(data, CRC_COVERS_FROM, len(data)) != header.crc:
        return False
    # It may have been in the page cache alone, and a sync that failed may have left it there as clean: write it again.
    file.write_at(entry.segment_position(), (data,))
    hall.world.disk.sync_now(file)
    return True


@final
class _Replay:
    """Applies entries again, in the order of the log."""

    def __init__(self, hall: Hall, waiting: dict[int, list[Any]], report: Recovered) -> None:
        self._hall = hall
        self._waiting = waiting
        self._report = report
        self._parts: dict[int, bytes] = {}  # By shard: the beginning of an event that takes several entries.

    def take(self, entry: Entry) -> None:
        """Apply one entry. What followed from a damaged stretch may make no sense any more, and is passed over then."""
        self._report.entries += 1
        shard = self._hall.shards[entry.shard]
        shard.sequence = shard.committed = entry.sequence
        shard.epoch = max(shard.epoch, entry.epoch)
        try:
            if entry.kind == EVENT:
                self._take_event(entry)
            else:
                self._take_batch(entry)
        except (KeyError, ValueError, AssertionError, LonghallError):
            if not self._report.damage:
                raise
            self._report.skipped += 1

    def _take_batch(self, entry: Entry) -> None:
        hall = self._hall
        partition = hall.partitions.get(entry.partition())
        if partition is None:
            return  # Its topic was deleted later on.
        now_ms = hall.time.now_ms()
        stored = entry.batch()
        header = parse_header(stored, 0)
        if entry.kind == BATCH:
            partition.log.replay_batch(header, stored, entry.flags, now_ms)
            hall.note_tail(partition, header.size_bytes)
        else:
            hall.flush_tail(partition)
            partition.log.replay_reference(header, entry.segment_position(), entry.flags, now_ms)
            hall.referenced_bytes += header.size_bytes
        partition.fold(header, stored, now_ms)
        partition.high_watermark = header.next_offset

    def _take_event(self, entry: Entry) -> None:
        event = entry.event()
        if entry.flags & CONTINUES:
            before = self._parts.pop(entry.shard, None)
            if before is None:
                return  # Its beginning is lost.
            event = before + event
        if entry.flags & CONTINUED:
            self._parts[entry.shard] = event
            return
        self._parts.pop(entry.shard, None)  # A crash cut it off; nobody was promised it.
        self._apply(entry.shard, entry.room(), event)

    def _apply(self, shard: int, room: int, event: bytes) -> None:
        hall = self._hall
        if room == CATALOGUE:
            hall.apply_catalogue(catalogue_decoder.decode(event), replayed=True)
            if self._waiting:
                _restore_partitions(hall, self._waiting)
        elif room == GROUPS:
            hall.groups[shard - 1].apply(_group_decoder.decode(event), hall.time.now_ms())
        elif room == TRANSACTIONS:
            hall.transactions[shard - 1].apply(_transaction_decoder.decode(event))
        elif room == PARTITION_EVENTS:
            self._shorten(partition_decoder.decode(event))
        elif room == QUEUES:
            changed = queue_decoder.decode(event)
            queue = hall.queues.get(changed.queue)
            if queue is not None:
                queue.queue.apply(changed)
        elif room == STAGING:
            staged = _staging_decoder.decode(event)
            queue = hall.queues.get(staged.queue)
            if queue is not None:
                queue.staging.apply(staged)
        elif room == MOVES:
            hall.redrives[shard - 1].apply(_move_decoder.decode(event))
        elif room == PARCELS:
            parcel = _parcel_decoder.decode(event)
            if isinstance(parcel, WholeMade | WholeHeld | WholeFreed):
                hall.wholes[shard - 1].apply(parcel)
            else:
                hall.uploads[shard - 1].apply(parcel)
        elif room == SHARD:
            hall.shards[shard].epoch = epoch_decoder.decode(event).epoch

    def _shorten(self, event: PartitionEvent) -> None:
        partition = self._hall.partitions.get(event.partition)
        if partition is None:
            return
        if isinstance(event, SegmentsDropped):
            self._hall.drop_segments(partition, event.base_offsets)
            return
        self._hall.trim(partition, event.start_offset)
        partition.high_watermark = max(partition.high_watermark, event.start_offset)


def _finish(hall: Hall, report: Recovered) -> None:
    """Begin a new epoch everywhere and put away what a crash left behind."""
    for shard in hall.shards:
        shard.epoch += 1
        shard.append_event(SHARD, encoder.encode(EpochStarted(epoch=shard.epoch, incarnation=hall.wal.incarnation)))
        hall.journal.touch(shard, True)
    if not report.damage:  # Otherwise what looks like a leaving may be what somebody still misses.
        _remove_leavings(hall)
    hall.commits.kick()


def _remove_leavings(hall: Hall) -> None:
    """Files of topics that were deleted or never came to be, and of segments that were trimmed."""
    disk = hall.world.disk
    dropped = {partition.log.partition for partition in hall.dropped}
    for name in disk.list(PARTITIONS):
        number = _number(name, 16)
        if number < 0 or number in dropped:
            continue
        partition = hall.partitions.get(number)
        if partition is None:
            disk.remove(f"{PARTITIONS}/{name}")
        elif partition.log.start_offset > 0 or partition.log.has_gaps():
            kept = {segment.base_offset for segment in partition.log.segments}
            behind = max(partition.log.start_offset, max(kept, default=0))
            kept.update([base_offset for owner, base_offset in hall.dead_segments if owner == number])
            for inner in disk.list(f"{PARTITIONS}/{name}"):
                base_offset = _number(inner.partition(".")[0], 10)
                if 0 <= base_offset < behind and base_offset not in kept:
                    disk.remove(f"{PARTITIONS}/{name}/{inner}")


def _number(text: str, base: int) -> int:
    """The number that a file is called after; -1 for names that are not ours."""
    try:
        return int(text, base)
    except ValueError:
        return -1

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

from longhall.broker.events import EpochStarted, catalogue_decoder, encoder, epoch_decoder, trimmed_decoder
from longhall.broker.hall import Hall
from longhall.broker.options import HallOptions
from longhall.errors import Code, LonghallError
from longhall.log.frames import BATCH, EVENT, REFERENCE, Entry, Frame
from longhall.log.layout import IDENTITY, PARTITIONS, SHARDS, partition_directory, segment_path
from longhall.log.snapshots import read_snapshot
from longhall.log.wal import Damage
from longhall.records.batch import CRC_COVERS_FROM, parse_header
from longhall.records.crc import crc_of
from longhall.shards.shard import CATALOGUE, GROUPS, SHARD, TRANSACTIONS
from longhall.shards.shard import PARTITIONS as PARTITION_EVENTS
from longhall.topics.events import GroupEvent, TransactionEvent
from longhall.topics.groups import Groups
from longhall.topics.settings import GroupSettings, TransactionSettings
from longhall.topics.transactions import Transactions
from longhall.world.ports import Disk, Entropy

FORMAT: Final = 1

_group_decoder = msgspec.msgpack.Decoder(GroupEvent)
_transaction_decoder = msgspec.msgpack.Decoder(TransactionEvent)
_decoder = msgspec.msgpack.Decoder()


class Identity(msgspec.Struct, kw_only=True):
    """What `longhall.json` says: who this data directory is, and in which format."""

    format: int = FORMAT
    hall_id: str
    shards: int


@final
class Recovered:
    """What recovery found, for the log and the metrics."""

    def __init__(self) -> None:
        self.entries = 0
        self.torn_bytes_from = -1  # Where the log was cut, if it was.
        self.damage: list[Damage] = []


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
    identity = Identity(hall_id=entropy.bytes(16).hex(), shards=options.shards)
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
    end = _find_end(hall, start, report)
    time_ms = 0
    for found in hall.wal.recover(start):
        if isinstance(found, Damage):
            report.damage.append(found)
            continue
        if found.position >= end:
            break
        hall.time.not_before(found.time_ms)
        for entry in found.entries:
            if found.position >= positions[entry.shard]:
                _replay(hall, entry, waiting)
                report.entries += 1
        time_ms = max(time_ms, found.time_ms)
    hall.wal.sync_recovered(end)
    hall.wal.resume(end, time_ms)
    _finish(hall)
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


def _find_end(hall: Hall, start: int, report: Recovered) -> int:
    """The position of the first frame that nobody was promised and that is not whole, with all it refers to."""
    end = start
    bases: dict[int, int] = {}
    for found in hall.wal.recover(start):
        if isinstance(found, Damage):
            end = found.next_position
            continue
        if found.position >= hall.wal.horizon and not _references_whole(hall, found, bases):
            report.torn_bytes_from = found.position
            return found.position
        end = found.position + found.size_bytes if found.entries else hall.wal.next_file_start(found.position)
        _note_segments(found, bases)
    return end


def _note_segments(frame: Frame, bases: dict[int, int]) -> None:
    """Remember in which segment each partition writes: references name only their place in it."""
    for entry in frame.entries:
        if entry.kind in (BATCH, REFERENCE) and entry.flags:
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


def _replay(hall: Hall, entry: Entry, waiting: dict[int, list[Any]]) -> None:
    shard = hall.shards[entry.shard]
    shard.sequence = shard.committed = entry.sequence
    shard.epoch = max(shard.epoch, entry.epoch)
    if entry.kind == EVENT:
        _replay_event(hall, entry, waiting)
        return
    partition = hall.partitions.get(entry.partition())
    if partition is None:
        return  # Its topic was deleted later on.
    now_ms = hall.time.now_ms()
    stored = entry.batch()
    header = parse_header(stored, 0)
    hall.files.doubt_names(partition_directory(entry.partition()))
    if entry.kind == BATCH:
        partition.log.replay_batch(header, stored, entry.flags, now_ms)
        hall.note_tail(partition, header.size_bytes)
    else:
        partition.log.replay_reference(header, entry.segment_position(), entry.flags, now_ms)
    partition.fold(header, stored, now_ms)
    partition.high_watermark = header.next_offset


def _replay_event(hall: Hall, entry: Entry, waiting: dict[int, list[Any]]) -> None:
    room = entry.room()
    now_ms = hall.time.now_ms()
    if room == CATALOGUE:
        hall.apply_catalogue(catalogue_decoder.decode(entry.event()), replayed=True)
        if waiting:
            _restore_partitions(hall, waiting)
    elif room == GROUPS:
        hall.groups[entry.shard - 1].apply(_group_decoder.decode(entry.event()), now_ms)
    elif room == TRANSACTIONS:
        hall.transactions[entry.shard - 1].apply(_transaction_decoder.decode(entry.event()))
    elif room == PARTITION_EVENTS:
        trimmed = trimmed_decoder.decode(entry.event())
        partition = hall.partitions.get(trimmed.partition)
        if partition is not None:
            hall.trim(partition, trimmed.start_offset)
    elif room == SHARD:
        started = epoch_decoder.decode(entry.event())
        hall.shards[entry.shard].epoch = started.epoch


def _finish(hall: Hall) -> None:
    """Begin a new epoch everywhere and remove what deleted topics left behind."""
    for shard in hall.shards:
        shard.epoch += 1
        shard.append_event(SHARD, encoder.encode(EpochStarted(epoch=shard.epoch, incarnation=hall.wal.incarnation)))
        hall.journal.touch(shard, True)
    kept = {partition.log.partition for partition in hall.dropped}
    for name in hall.world.disk.list(PARTITIONS):
        number = int(name, 16)
        if number not in hall.partitions and number not in kept and number < hall.catalogue.next_partition:
            hall.world.disk.remove(f"{PARTITIONS}/{name}")
    hall.commits.kick()

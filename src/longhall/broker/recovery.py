"""Recovery: fill an empty hall from its data directory.

    snapshots   the state of each shard at a position of the write-ahead log
    scan        from the oldest of these positions to the end of the log: the first frame that is torn, or refers to a
                torn batch, and was never acknowledged
    replay      every entry before that end, for each shard after its snapshot, through the code that applied it before
    new epoch   each shard begins one, which fences earlier leaders

After a clean stop the log after the snapshots is empty and no segment is opened. Acknowledged parts of the log that
cannot be read are reported; their messages are missing and readers get an error; nothing is truncated.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from longhall.broker.apply import apply_entry
from longhall.broker.events import EpochStarted, encoder
from longhall.broker.hall import Hall
from longhall.broker.hall_topics import HallTopics
from longhall.broker.options import HallOptions
from longhall.broker.replay import Recovered, Replay, restore_partitions
from longhall.errors import Code, LonghallError
from longhall.log.frames import REFERENCE, Entry, Frame
from longhall.log.layout import IDENTITY, PARTITIONS, SHARDS, segment_path
from longhall.log.snapshots import read_snapshot
from longhall.log.wal import Damage
from longhall.queues.chunked_messages import ChunkedMessages
from longhall.queues.chunks import Uploads
from longhall.queues.redrive import Redrives
from longhall.records.batch import CRC_COVERS_FROM, parse_header
from longhall.records.crc import crc_of
from longhall.shards.shard import SHARD, Shard
from longhall.topics.groups import Groups
from longhall.topics.settings import GroupSettings, TransactionSettings
from longhall.topics.transactions import Transactions
from longhall.world.ports import Disk, Entropy

FORMAT: Final = 1  # Of a new directory. In a cluster it is the feature level of the writer: see `feature_gates`.
FORMAT_MAX: Final = 9

_decoder = msgspec.msgpack.Decoder()


class Identity(msgspec.Struct, kw_only=True):
    """The contents of `longhall.json`: the identity and the format of a data directory."""

    format: int = FORMAT
    hall_id: str
    shards: int
    secret: str = ""  # The key of receipts.
    member: bool = False  # True for a replica of a cluster: `replica_recovery` reads its log and snapshots.


def identify(
    disk: Disk,
    entropy: Entropy,
    options: HallOptions,
    shared: Identity | None = None,
    format_max: int = FORMAT_MAX,
) -> Identity:
    """The identity of the data directory, created if it is new.

    All replicas of a cluster share one identity.
    """
    identity = read_identity(disk, format_max)
    if identity is not None:
        if shared is not None and identity.hall_id != shared.hall_id:
            raise LonghallError(
                Code.INVALID_CONFIGURATION,
                f"the data directory belongs to the hall {identity.hall_id}, and the cluster stores {shared.hall_id}: "
                "choose another directory with --data",
            )
        return identity
    if disk.list("wal") or disk.list(PARTITIONS):
        raise LonghallError(Code.STORAGE_DAMAGED, f"the directory holds data but no {IDENTITY}: restore it")
    identity = shared or Identity(
        hall_id=entropy.bytes(16).hex(), shards=options.shards, secret=entropy.bytes(32).hex()
    )
    for directory in ("wal", PARTITIONS, SHARDS):
        disk.make_directory(directory)
    write_identity(disk, identity)
    return identity


def read_identity(disk: Disk, format_max: int = FORMAT_MAX, name: str = IDENTITY) -> Identity | None:
    """The identity of the data directory; None if it is new. Raises UNSUPPORTED_VERSION for a newer format."""
    if not disk.exists(name):
        return None
    file = disk.open(name)
    data = file.read_at(0, file.size())
    file.close()
    try:
        identity = msgspec.json.decode(data, type=Identity)
    except msgspec.DecodeError as error:
        raise LonghallError(Code.STORAGE_DAMAGED, f"{name} cannot be read ({error}): restore it") from None
    if identity.format > format_max:
        raise LonghallError(
            Code.UNSUPPORTED_VERSION,
            f"the data directory has format {identity.format} and this version knows up to {format_max}: "
            "start the version that wrote it",
        )
    return identity


def write_identity(disk: Disk, identity: Identity, name: str = IDENTITY) -> None:
    """Write the identity of the directory. Blocks on the disk."""
    file = disk.open(name + ".new", create=True)
    file.truncate(0)
    file.write_at(0, (msgspec.json.encode(identity) + b"\n",))
    disk.sync_now(file)
    file.close()
    disk.rename(name + ".new", name)
    disk.sync_directory("")


def recover(hall: Hall) -> Recovered:
    """Fill the hall. Blocks on the disk: it runs before the doors open."""
    report = replay_all(hall)
    _finish(hall, report)
    return report


def replay_all(hall: Hall) -> Recovered:
    """Fill the hall from snapshots and log, without an append."""
    report = Recovered()
    make_shard_states(hall)
    positions, waiting = _restore_snapshots(hall)
    start = min(positions)
    durable = max(positions)  # A snapshot is published only when the log before it is synced.
    end = find_end(hall, start, durable, report)
    if 0 in positions and hall.wal.start > 0:
        shard = positions.index(0)
        raise LonghallError(Code.STORAGE_DAMAGED, f"the snapshot of shard {shard} is gone: restore the data directory")
    replay = Replay(hall, waiting, report)
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
                apply_entry(replay, entry, entry.sequence)
        time_ms = max(time_ms, found.time_ms)
    hall.wal.sync_recovered(end)
    hall.wal.resume(end, time_ms)
    return report


def make_shard_states(hall: Hall) -> None:
    """Create the empty state machines of all shards."""
    options = hall.options
    groups = GroupSettings(
        session_timeout_min_ms=options.group_session_timeout_min_ms,
        session_timeout_max_ms=options.group_session_timeout_max_ms,
        initial_rebalance_delay_ms=options.group_initial_rebalance_delay_ms,
        members_max=options.group_members_max,
        offsets_retention_ms=options.offsets_retention_ms,
        consumer_session_timeout_ms=options.consumer_session_timeout_ms,
        consumer_session_timeout_min_ms=options.consumer_session_timeout_min_ms,
        consumer_session_timeout_max_ms=options.consumer_session_timeout_max_ms,
        consumer_heartbeat_interval_ms=options.consumer_heartbeat_interval_ms,
        consumer_heartbeat_interval_min_ms=options.consumer_heartbeat_interval_min_ms,
        consumer_heartbeat_interval_max_ms=options.consumer_heartbeat_interval_max_ms,
        consumer_members_max=options.consumer_members_max,
        consumer_assignors=options.consumer_assignors,
        consumer_migration=options.consumer_migration,
    )
    topics = HallTopics(hall)
    transactions = TransactionSettings(
        timeout_max_ms=options.transaction_timeout_max_ms, idle_expiry_ms=options.transactional_id_expiry_ms
    )
    for _ in hall.shards[1:]:
        hall.groups.append(Groups(groups, topics))
        hall.transactions.append(Transactions(transactions))
        hall.redrives.append(Redrives())
        hall.uploads.append(Uploads())
        hall.chunked_messages.append(ChunkedMessages())


def _restore_snapshots(hall: Hall) -> tuple[list[int], dict[int, list[Any]]]:
    """The position of each snapshot, and the states of partitions that the catalogue does not know yet."""
    positions: list[int] = []
    waiting: dict[int, list[Any]] = {}
    for shard in hall.shards:
        found = read_snapshot(hall.world.disk, shard.number)
        positions.append(found[0] if found is not None else 0)
        if found is None:
            continue
        restore_shard(hall, shard, _decoder.decode(found[1]), waiting)
    restore_partitions(hall, waiting)
    return positions, waiting


def restore_shard(hall: Hall, shard: Shard, state: dict[str, Any], waiting: dict[int, list[Any]]) -> None:
    """Take the state of a shard from a snapshot; states of partitions go to `waiting`."""
    shard.sequence = shard.committed = state["sequence"]
    shard.epoch = state["epoch"]
    hall.wal.incarnation = max(hall.wal.incarnation, state["incarnation"] + 1)
    hall.time.not_before(state["time_ms"])
    now_ms = hall.time.now_ms()
    if shard.number == 0:
        hall.restore_catalogue(state["catalogue"])
        return
    waiting.update(state["partitions"])
    if "queues" in state:  # Old snapshots have no queues.
        hall.restore_queues(state["queues"])
        hall.redrives[shard.number - 1].restore(state["moves"])
    if "wholes" in state:  # Old snapshots have no large messages.
        hall.uploads[shard.number - 1].restore(state["uploads"])
        hall.chunked_messages[shard.number - 1].restore(state["wholes"])
    if "outboxes" in state:  # Old snapshots have none.
        hall.outboxes.restore(state["outboxes"])
    if "usage" in state:
        hall.usage.totals.restore(state["usage"])
    hall.groups[shard.number - 1].restore(state["groups"], now_ms)
    hall.transactions[shard.number - 1].restore(state["transactions"])


def find_end(hall: Hall, start: int, durable: int, report: Recovered) -> int:
    """The end of the log: the first unacknowledged frame that is torn, or refers to a torn batch."""
    end = start
    bases: dict[int, int] = {}
    cut = False
    for found in hall.wal.recover(start, durable):
        if isinstance(found, Damage):
            end = found.next_position
            continue
        if not cut and found.position >= hall.wal.horizon and not _references_whole(hall, found, bases):
            cut = True
            end = found.position
        if cut:  # Later frames are only counted.
            report.cut_bytes += found.size_bytes
            continue
        end = hall.wal.next_file_start(found.position) if found.is_last else found.position + found.size_bytes
        _note_segments(found, bases)
    report.end = end
    report.cut_bytes += hall.wal.torn_bytes
    report.corrected = sorted(position for position in hall.wal.corrections if position < end)
    return end


def _note_segments(frame: Frame, bases: dict[int, int]) -> None:
    """Note the active segment of each partition: references have only the position in it."""
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
    # The batch may be only in the page cache, marked clean by a failed sync: write it again.
    file.write_at(entry.segment_position(), (data,))
    hall.world.disk.sync_now(file)
    return True


def _finish(hall: Hall, report: Recovered) -> None:
    """Begin a new epoch in every shard and remove leftover files of a crash."""
    for shard in hall.shards:
        shard.epoch += 1
        shard.append_event(SHARD, encoder.encode(EpochStarted(epoch=shard.epoch, incarnation=hall.wal.incarnation)))
        hall.journal.touch(shard, True)
    if not report.damage:  # With damage, an unreferenced file may still be needed.
        remove_orphaned_files(hall)
    hall.commits.kick()


def remove_orphaned_files(hall: Hall) -> None:
    """Remove files of deleted or uncommitted topics, and of trimmed segments."""
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
    """The number in a file name; -1 for other names."""
    try:
        return int(text, base)
    except ValueError:
        return -1

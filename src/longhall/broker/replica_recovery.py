"""Replica recovery: fill an empty hall from the data directory of a replica.

    snapshot    the state of the hall at an index of the replicated log, and the pending entries
    scan        to the end of the log, as in `recovery`
    notes       local notes among the entries: the commit index, and truncations
    replay      committed entries are applied; later ones are pending

Nothing is appended: the leader decides whether the rest of the log counts. An acknowledged part of the log that cannot
be read is an error: other replicas have it, so this one does a full sync.

When the directory of a standalone node is first opened as a replica, all its entries count as committed; a checkpoint
must be taken before the node joins.
"""

from __future__ import annotations

from typing import Any, final

import msgspec

from longhall.broker.apply import FULL, ReplicaFailed, apply_committed
from longhall.broker.events import CommittedTo, Truncated, shard_decoder
from longhall.broker.hall import Hall
from longhall.broker.recovery import find_end, make_shard_states, remove_orphaned_files, replay_all, restore_shard
from longhall.broker.replay import Recovered, Replay, restore_partitions
from longhall.errors import Code, LonghallError
from longhall.log.frames import Entry, Frame
from longhall.log.snapshots import read_snapshot
from longhall.log.wal import Damage
from longhall.shards.replica import Replica

_decoder = msgspec.msgpack.Decoder()


@final
class RecoveredReplica:
    """The report of a replica recovery, and the replay that applies further committed entries."""

    def __init__(self, report: Recovered, replay: Replay) -> None:
        self.report = report
        self.replay = replay


def recover_replica(hall: Hall) -> RecoveredReplica:
    """Fill the hall and create its replica. Blocks on the disk. Raises ReplicaFailed if an entry cannot be applied or
    read, and OSError if the log cannot be synced or continued: then no entry is to blame, and the next start begins
    anew.
    """
    try:
        recovered, end, time_ms = _replay_log(hall)
    except OSError as error:
        if error.errno in FULL:
            raise
        replica = hall.replica
        assert replica is not None
        raise ReplicaFailed(replica.applied + 1, replica.epoch, 0, error) from error
    hall.wal.sync_recovered(end)
    hall.wal.resume(end, time_ms)
    remove_orphaned_files(hall)
    return recovered


def _replay_log(hall: Hall) -> tuple[RecoveredReplica, int, int]:
    """Read the log to its end: the report, the end, and the time of the newest frame."""
    report = Recovered()
    make_shard_states(hall)
    replica = hall.replica = Replica(len(hall.shards))
    replay = Replay(hall, {}, report, replica.parts, replica.batch_parts)
    position = _restore(hall, replica)
    hall.positions.note(replica.index, position)
    end = find_end(hall, position, position, report)
    time_ms = 0
    for found in hall.wal.recover(position, position):
        if isinstance(found, Damage):
            report.damage.append(found)
            raise LonghallError(
                Code.STORAGE_DAMAGED,
                f"the write-ahead log is damaged at {found.position}: run a full sync from another replica",
            )
        if found.position >= end:
            break
        hall.time.not_before(found.time_ms)
        time_ms = max(time_ms, found.time_ms)
        _take_frame(hall, replica, found)
        apply_committed(replica, replay, replica.index)
    return RecoveredReplica(report, replay), end, time_ms


def convert_to_replica(hall: Hall) -> RecoveredReplica:
    """Recover the directory of a standalone node as a replica. The caller checkpoints it, then updates its identity."""
    report = replay_all(hall)
    if report.damage:
        raise LonghallError(Code.STORAGE_DAMAGED, "the directory is damaged: run longhall doctor before it joins")
    replica = Replica(len(hall.shards))
    replica.sequences = [shard.sequence for shard in hall.shards]
    replica.index = replica.applied = replica.committed = sum(replica.sequences)
    if replica.index:
        replica.epochs.note(max(shard.epoch for shard in hall.shards), 1)
    hall.replica = replica
    return RecoveredReplica(report, Replay(hall, {}, report, replica.parts, replica.batch_parts))


def _restore(hall: Hall, replica: Replica) -> int:
    """Restore the newest snapshot; returns its position, 0 without one."""
    try:
        found = read_snapshot(hall.world.disk, 0)
    except LonghallError as error:
        if error.code is not Code.UNSUPPORTED_VERSION:
            raise
        # A directory of a newer version is refused earlier, by its identity; so a bit has flipped in the version of the
        # snapshot, which its checksum does not cover.
        reason = f"{error}; or it is damaged: run a full sync from another replica"
        raise LonghallError(Code.STORAGE_DAMAGED, reason) from None
    if found is None:
        return 0
    state = _decoder.decode(found[1])
    replica.restore(state["replica"])
    waiting: dict[int, list[Any]] = {}
    for shard, inner in zip(hall.shards, state["shards"], strict=True):
        restore_shard(hall, shard, inner, waiting)
    restore_partitions(hall, waiting)
    return found[0]


def _take_frame(hall: Hall, replica: Replica, frame: Frame) -> None:
    hall.positions.note(replica.index, frame.position)
    for entry in frame.entries:
        if entry.sequence:
            replica.take(entry, frame.time_ms)
        else:
            _take_mark(hall, replica, entry, frame)


def _take_mark(hall: Hall, replica: Replica, entry: Entry, frame: Frame) -> None:
    mark = shard_decoder.decode(entry.event())
    if isinstance(mark, Truncated):
        replica.truncate(mark.index)
        hall.positions.cut_behind(mark.index, frame.position)
    elif isinstance(mark, CommittedTo):
        replica.commit(mark.index)

"""Checkpoint: write the state and the tails to disk, so that the write-ahead log before it can be reused.

    capture    the state of each shard is encoded, with the position of the log
    settle     the log is synced up to that position, so that the captured state is durable
    flush      tails are written to their segments; segments, indexes and directories are synced in the background
    publish    the snapshots get their names
    release    the log before the oldest snapshot is free; files that only it referred to are removed

Until `release` no file that the log refers to changes: recovery can always start from the last snapshots.

A replica of a cluster writes one snapshot of all its shards and of the pending entries, because the shards share one
log. A snapshot cannot be undone, so it is published only when all applied entries are committed.
"""

from __future__ import annotations

import asyncio
import errno
from typing import Any, Final

import msgspec

from longhall.broker.hall import Hall
from longhall.broker.partition import Partition
from longhall.log.layout import index_path, partition_directory, segment_path
from longhall.log.partition import PartitionLog
from longhall.names import OUTBOX_SHARD, USAGE_SHARD
from longhall.shards.replica import Replica
from longhall.shards.shard import Shard
from longhall.world.ports import File

SYNC_FILES_MAX: Final = 64  # Synced with one call; bounds a single wait.
INDEX_UNSAVED_BYTES_MAX: Final = 1024 * 1024  # Of an active segment: a crash requires a scan of this much.
PARTITIONS_A_TURN: Final = 32  # Partitions between two turns of the loop.
REQUEST_LOOK_S: Final = 0.05
COMMIT_LOOK_S: Final = 0.05
COMMIT_LOOKS_MAX: Final = 100
FLUSH_PASSES_MAX: Final = 400  # Passes over tails that are written in the background,
FLUSH_PASS_S: Final = 0.005  # with this pause; the rest is written synchronously.
SYNCS_AT_ONCE: Final = 16  # Concurrent sync calls are one pass over the disk.
RECENT_STEP_BYTES: Final = 1024 * 1024  # Memory freed between two turns of the loop: 250 MB at once take 30 ms.
RECENT_STEPS_MAX: Final = 4096  # Of one partition; the next checkpoint does the rest.

_Ends = tuple[Partition, int, int]  # A partition, and as captured: the end of its log and of its closed segments.

_encoder = msgspec.msgpack.Encoder()


async def checkpoint(hall: Hall, *, last: bool = False) -> None:
    """Take a checkpoint. Raises OSError if the disk fails, and then nothing has changed.

    The `last` checkpoint of a node saves all indexes, so that the next start scans nothing.
    """
    dropped, hall.dropped = hall.dropped, []
    dead, hall.dead_segments = hall.dead_segments, []
    wanted, hall.checkpoint_wanted = hall.checkpoint_wanted, False
    hall.checkpoints_begun += 1
    number_begun = hall.checkpoints_begun
    ends: list[_Ends] = []
    steps = hall.steps()
    try:
        _check_state(hall)
        captured = await _capture(hall, ends)
        await hall.commits.durable()
        await _flush_tails(hall, ends)
        await _flush(hall, 0 if last else INDEX_UNSAVED_BYTES_MAX)
        for number, position, body in captured:
            _check_state(hall)  # The state may have failed since the capture.
            arguments: dict[str, object] = {"shard": number, "position": position, "body": body}
            await hall.world.janitor.run("write_snapshot", arguments)
    except BaseException:
        hall.dropped = dropped + hall.dropped
        hall.dead_segments = dead + hall.dead_segments
        hall.checkpoint_wanted |= wanted
        raise
    released = min(position for _, position, _ in captured)
    hall.wal.release_before(hall.on_release(released))
    hall.positions.release_before(hall.wal.start)
    hall.checkpoint_at = released
    hall.checkpoint_steps = steps
    for partition, _, closed_end in ends:
        partition.log.safe_offset = closed_end
    hall.referenced_bytes = 0
    hall.checkpoints += 1
    hall.checkpoint_number = number_begun
    hall.checkpointed_ms = hall.time.now_ms()
    await _remove(hall, dropped, dead, at_once=last)


async def request_checkpoint(hall: Hall, seconds: float) -> bool:
    """Ask the housekeeper for a checkpoint, and wait so long for it. True if there is one that began after the request:
    one that was under way already has a state from before.
    """
    before = hall.checkpoints_begun
    hall.checkpoint_wanted = True
    for _ in range(int(seconds / REQUEST_LOOK_S)):
        if hall.checkpoint_number > before:
            return True
        await asyncio.sleep(REQUEST_LOOK_S)
    return False


def _check_state(hall: Hall) -> None:
    """Raise OSError if the state has failed or the hall was abandoned: it must not be published."""
    if hall.failed:
        raise OSError(errno.ENOTRECOVERABLE, f"the state is not what the log says: {hall.failed}")
    if hall.commits.failure is not None:
        raise hall.commits.failure


async def _flush_tails(hall: Hall, ends: list[_Ends]) -> None:
    """Write all tails below these offsets to their segments."""
    waiting = [(part, offset) for part, offset, _ in ends if _is_in_memory(part, offset)]
    for _ in range(FLUSH_PASSES_MAX):
        for count, (partition, offset) in enumerate(waiting, 1):
            if _is_in_memory(partition, offset) and not hall.settle_tail(partition):
                raise OSError(errno.ENOSPC, "no space to write segments; the write-ahead log keeps them until there is")
            if count % PARTITIONS_A_TURN == 0:
                await asyncio.sleep(0)
        waiting = [(part, offset) for part, offset in waiting if _is_in_memory(part, offset)]
        if not waiting:
            return
        await asyncio.sleep(FLUSH_PASS_S)  # Background writes are in progress.
    for partition, offset in waiting:
        if _is_in_memory(partition, offset) and not hall.flush_tail(partition):
            raise OSError(errno.ENOSPC, "no space to write segments; the write-ahead log keeps them until there is")


def _is_in_memory(partition: Partition, offset: int) -> bool:
    return not partition.deleted and partition.log.tail_offset < offset


def _ends_of(partition: Partition) -> _Ends:
    return partition, partition.log.next_offset, partition.log.closed_end


async def _capture(hall: Hall, ends: list[_Ends]) -> list[tuple[int, int, bytes]]:
    """Shard, position and state of each snapshot; `ends` gets those of each partition."""
    if hall.replica is not None:
        return await _capture_member(hall, hall.replica, ends)
    captured: list[tuple[int, int, bytes]] = []
    for shard in hall.shards:
        _write_all(hall)
        captured.append((shard.number, hall.wal.end, _encoder.encode(_state_of(hall, shard))))
        ends += [_ends_of(part) for part in hall.partitions.values() if part.shard is shard]
        await asyncio.sleep(0)
    return captured


async def _capture_member(hall: Hall, replica: Replica, ends: list[_Ends]) -> list[tuple[int, int, bytes]]:
    _write_all(hall)
    states = [_state_of(hall, shard) for shard in hall.shards]
    body = _encoder.encode({"replica": replica.snapshot(), "shards": states})
    ends += [_ends_of(partition) for partition in hall.partitions.values()]
    position = hall.wal.end
    hall.positions.note(replica.index, position, 1)
    await _committed(replica, replica.applied)
    return [(0, position, body)]


async def _committed(replica: Replica, index: int) -> None:
    """Wait for the commit of this entry. Raises OSError(EAGAIN) after a bounded time."""
    for _ in range(COMMIT_LOOKS_MAX):
        if replica.committed >= index:
            return
        await asyncio.sleep(COMMIT_LOOK_S)
    raise OSError(errno.EAGAIN, "too few replicas answer: applied entries are not committed")


def _write_all(hall: Hall) -> None:
    while hall.journal.pending:  # A released caller may append at once.
        hall.commits.write()


async def _flush(hall: Hall, index_unsaved_bytes_max: int) -> None:
    """Sync all segments and indexes."""
    taken: list[tuple[PartitionLog, set[int]]] = []
    try:
        paths: list[str] = []
        for partition in list(hall.partitions.values()):
            log = partition.log
            if log.unsynced:
                log.save_active_index(index_unsaved_bytes_max)
                bases = log.take_unsynced()
                taken.append((log, bases))
                for base_offset in sorted(bases):
                    paths.append(segment_path(log.partition, base_offset))
                    paths.append(index_path(log.partition, base_offset))
                if len(taken) % PARTITIONS_A_TURN == 0:
                    await asyncio.sleep(0)
        step = min(SYNC_FILES_MAX, hall.options.open_files_max)
        for at in range(0, len(paths), step * SYNCS_AT_ONCE):
            starts = range(at, min(at + step * SYNCS_AT_ONCE, len(paths)), step)
            begun = [_begin_sync(hall, paths[start : start + step]) for start in starts]
            for done in begun:
                error = await done
                if error is not None:
                    hall.commits.fail(error)
                    raise error
        await sync_names(hall)
        for log, bases in taken:
            for _ in range(RECENT_STEPS_MAX):
                if log.written_is_recent(bases, RECENT_STEP_BYTES):
                    break
                await asyncio.sleep(0)
    except BaseException:  # Also on cancellation: these are not synced.
        for log, bases in taken:
            log.unsynced |= bases
        raise


async def sync_names(hall: Hall) -> None:
    """Sync the directories of new files in the background. A failure is final, like that of any sync."""
    names = hall.files.unsynced_names()
    if not names:
        return
    try:
        await hall.world.janitor.run("sync_directories", {"paths": sorted(names)})
    except OSError as error:
        if error.filename is not None:  # A disk error. If the janitor process died, the next call retries.
            hall.commits.fail(error)
        raise
    hall.files.names_synced(names)


def _begin_sync(hall: Hall, paths: list[str]) -> asyncio.Future[OSError | None]:
    """Sync these files in the background; the future gets the failure, or None."""
    files: list[File] = [hall.files.get(path) for path in paths if hall.world.disk.exists(path)]
    done: asyncio.Future[OSError | None] = asyncio.get_running_loop().create_future()

    def finished(error: OSError | None) -> None:
        if not done.done():
            done.set_result(error)

    hall.world.disk.sync(files, finished, background=True)
    return done


async def _remove(hall: Hall, dropped: list[Partition], dead: list[tuple[int, int]], *, at_once: bool) -> None:
    """Remove unreferenced files: now, or in steps if the housekeeper runs."""
    paths, hall.removals = hall.removals, []
    for partition in dropped:
        partition.log.close()
        paths.append(partition_directory(partition.log.partition))
    for number, base_offset in dead:
        for path in (segment_path(number, base_offset), index_path(number, base_offset)):
            hall.files.forget(path)
            paths.append(path)
    if hall.removal_wanted is not None and not at_once:
        hall.removals = paths
        hall.removal_wanted.set()
    elif paths:
        await hall.world.janitor.run("remove", {"paths": paths})


def _state_of(hall: Hall, shard: Shard) -> dict[str, Any]:
    """The snapshot of a shard."""
    state: dict[str, Any] = {
        "sequence": shard.sequence,
        "epoch": shard.epoch,
        "incarnation": hall.wal.incarnation,
        "time_ms": hall.time.now_ms(),
    }
    if shard.number == 0:
        state["catalogue"] = hall.catalogue.snapshot()
        return state
    state["partitions"] = {
        number: partition.snapshot()
        for number, partition in hall.partitions.items()
        if partition.shard is shard and partition.log.next_offset
    }
    state["queues"] = {number: queue.snapshot() for number, queue in hall.queues.items() if queue.shard is shard}
    state["moves"] = hall.redrives[shard.number - 1].snapshot()
    state["uploads"] = hall.uploads[shard.number - 1].snapshot()
    state["wholes"] = hall.chunked_messages[shard.number - 1].snapshot()
    state["groups"] = hall.groups[shard.number - 1].snapshot()
    state["transactions"] = hall.transactions[shard.number - 1].snapshot()
    if shard.number == OUTBOX_SHARD:
        state["outboxes"] = hall.outboxes.snapshot()
    if shard.number == USAGE_SHARD:
        state["usage"] = hall.usage.totals.snapshot()
    return state

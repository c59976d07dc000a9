"""Planted bugs of topics and of the log: what recovery forgets, and what is answered too early."""

from __future__ import annotations

from typing import Any, Final

from crc32c import crc32c

from longhall.broker import recovery
from longhall.broker.commits import Commits
from longhall.broker.partition import Partition
from longhall.broker.transaction_coordinator import TransactionCoordinator
from longhall.log import background_jobs, compaction, frames, partition, segment_reads, wal
from longhall.log.files import OpenFiles
from longhall.log.frames import decode_frame
from longhall.log.partition import PartitionLog
from longhall.log.wal import Wal
from longhall.topics import reconciliation
from longhall.topics.offsets import OffsetTable
from longhall.topics.producers import Duplicate, ProducerTable
from simulation.bug import Bug, replaced

_FRAME_POSITION_AT: Final = 16


def _acknowledge_before_sync() -> list[tuple[Any, str, Any]]:
    good: Any = Commits._begin

    def begin(self: Any, at_rest: bool) -> None:
        good(self, at_rest)
        if self._round is not None:
            self._journal.finish(self._round)

    return [(Commits, "_begin", begin)]


def _retry_a_failed_sync() -> list[tuple[Any, str, Any]]:
    good: Any = Commits._synced

    def synced(self: Any, error: OSError | None) -> None:
        if error is not None:
            self._disk.sync(self._round.files, self._synced)
        else:
            good(self, None)

    return [(Commits, "_synced", synced)]


def _skip_the_torn_tail_cut() -> list[tuple[Any, str, Any]]:
    good: Any = Wal._walk

    def walk(self: Any, chain: Any, from_position: int, durable: int) -> Any:
        return good(self, chain, from_position, 1 << 62)

    return [(Wal, "_walk", walk)]


def _trust_torn_frames() -> list[tuple[Any, str, Any]]:
    class Agreeable(int):
        """A checksum that equals every other one."""

        def __ne__(self, other: object) -> bool:
            return False

        __hash__ = int.__hash__

    return [(frames, "crc32c", lambda data, start=0: Agreeable(crc32c(data, start)))]


def _replay_stale_frames() -> list[tuple[Any, str, Any]]:
    def decode(buffer: bytes, at: int, position: int) -> Any:
        claimed = int.from_bytes(buffer[at + _FRAME_POSITION_AT : at + _FRAME_POSITION_AT + 8], "big")
        frame = decode_frame(buffer, at, claimed)
        if frame is not None:
            frame.position = position
            frame.incarnation = 0
        return frame

    return [(wal, "decode_frame", decode)]


def _trust_references() -> list[tuple[Any, str, Any]]:
    return [(recovery, "_references_whole", lambda hall, frame, bases: True)]


def _forget_producers() -> list[tuple[Any, str, Any]]:
    good: Any = Partition.restore

    def restore(self: Any, state: list[Any], now_ms: int) -> None:
        good(self, [state[0], None], now_ms)

    return [(Partition, "restore", restore)]


def _forget_aborted_ranges() -> list[tuple[Any, str, Any]]:
    good: Any = ProducerTable.restore

    def restore(self: Any, state: dict[str, Any], now_ms: int) -> None:
        good(self, {**state, "aborted": []}, now_ms)

    return [(ProducerTable, "restore", restore)]


def _take_duplicates() -> list[tuple[Any, str, Any]]:
    good: Any = ProducerTable.decide

    def decide(self: Any, header: Any) -> Any:
        decided = good(self, header)
        return None if isinstance(decided, Duplicate) else decided

    return [(ProducerTable, "decide", decide)]


def _read_above_the_high_watermark() -> list[tuple[Any, str, Any]]:
    good: Any = Partition.fold

    def fold(self: Any, header: Any, stored: bytes, now_ms: int) -> None:
        good(self, header, stored, now_ms)
        self.committed(header.next_offset)

    return [(Partition, "fold", fold)]


def _read_open_transactions() -> list[tuple[Any, str, Any]]:
    return [(ProducerTable, "last_stable_offset", lambda self, high_watermark: high_watermark)]


def _forget_directory_syncs() -> list[tuple[Any, str, Any]]:
    return [
        (OpenFiles, "sync_names", lambda self, directory: None),
        (background_jobs.BACKGROUND_JOBS, "sync_directories", lambda disk, arguments: {}),
    ]


def _lose_offsets_in_the_snapshot() -> list[tuple[Any, str, Any]]:
    good: Any = OffsetTable.snapshot

    def snapshot(self: Any) -> list[Any]:
        order, _, pending = good(self)
        return [order, [], pending]

    return [(OffsetTable, "snapshot", snapshot)]


def _release_before_flush() -> list[tuple[Any, str, Any]]:
    return [(PartitionLog, "flush", lambda self: _drop_tail(self))]


def _drop_tail(log: Any) -> int:
    """Discard the tail as if it were written."""
    written = 0
    for _, stored, segment in log._tail:
        segment.written_bytes += len(stored)
        written += len(stored)
    log._tail.clear()
    log.tail_bytes = 0
    return written


def _leave_markers_unwritten() -> list[tuple[Any, str, Any]]:
    return [(TransactionCoordinator, "start", lambda self: self.arm())]


def _compact_the_last_value() -> list[tuple[Any, str, Any]]:
    good: Any = compaction.Compaction.keeps

    def keeps(self: Any, header: Any, record: Any) -> bool:
        return bool(good(self, header, record)) and record.offset % 7 != 0

    return [(compaction.Compaction, "keeps", keeps)]


def _reopen_closed_segments() -> list[tuple[Any, str, Any]]:
    good: Any = PartitionLog.restore

    def restore(self: Any, numbers: Any) -> None:
        good(self, numbers)
        self.is_closed = False

    return [(PartitionLog, "restore", restore)]


def _cut_too_early() -> list[tuple[Any, str, Any]]:
    good: Any = PartitionLog.start_for_retention

    def start(self: Any, now_ms: int, retention_ms: int, retention_bytes: int, limit: int) -> int:
        return int(good(self, now_ms, retention_ms // 2, retention_bytes, limit))

    return [(PartitionLog, "start_for_retention", start)]


def _serve_damage() -> list[tuple[Any, str, Any]]:
    good: Any = segment_reads.cut_batches

    def cut(chunk: bytes, *bounds: Any) -> Any:
        with replaced(segment_reads, "crc_of", lambda *_: _Anything()):
            return good(chunk, *bounds)

    return [(partition, "cut_batches", cut)]


class _Anything:
    """Equal to any value."""

    def __eq__(self, other: object) -> bool:
        return True

    def __ne__(self, other: object) -> bool:
        return False

    __hash__ = None  # type: ignore[assignment]


def _assign_before_revocation() -> list[tuple[Any, str, Any]]:
    return [(reconciliation, "_owns_any", lambda owned, revoked: False)]


TOPIC_BUGS: Final[dict[str, Bug]] = {
    "acknowledge-before-sync": Bug("The reply does not wait for the sync.", "crashes", 4, _acknowledge_before_sync),
    "retry-a-failed-sync": Bug("A second sync is trusted after a failed one.", "storm", 40, _retry_a_failed_sync),
    "skip-the-torn-tail-cut": Bug("A torn tail is replayed.", "crashes", 20, _skip_the_torn_tail_cut),
    "trust-torn-frames": Bug("The checksum of a frame is not checked.", "crashes", 20, _trust_torn_frames),
    "replay-stale-frames": Bug(
        "Frames of a recycled file's earlier use are replayed.", "recycling", 10, _replay_stale_frames
    ),
    "trust-references": Bug("A large batch is assumed to be in its segment.", "large-batches", 10, _trust_references),
    "forget-producers": Bug("Producer states do not survive a restart.", "crashes", 4, _forget_producers),
    "forget-aborted-ranges": Bug("Aborted ranges do not survive a restart.", "crashes", 4, _forget_aborted_ranges),
    "take-duplicates": Bug("A batch that was sent again is stored again.", "crashes", 2, _take_duplicates),
    "read-above-the-high-watermark": Bug(
        "Readers see entries that can still be lost.", "crashes", 10, _read_above_the_high_watermark
    ),
    "read-open-transactions": Bug("Open transactions are shown as committed.", "crashes", 4, _read_open_transactions),
    "forget-directory-syncs": Bug("Names of new files are not synced.", "crashes", 4, _forget_directory_syncs),
    "lose-offsets-in-the-snapshot": Bug(
        "Snapshots lack the offsets of groups.", "crashes", 4, _lose_offsets_in_the_snapshot
    ),
    "assign-before-revocation": Bug(
        "A member's partitions are given away before it has given them up.", "memberships", 4, _assign_before_revocation
    ),
    "release-before-flush": Bug("The log is released too early.", "crashes", 4, _release_before_flush),
    "leave-markers-unwritten": Bug(
        "A crash leaves the outcome of a transaction open.", "crashes", 20, _leave_markers_unwritten
    ),
    "compact-the-last-value": Bug("Compaction drops some newest values.", "cleaning", 4, _compact_the_last_value),
    "reopen-closed-segments": Bug(
        "A closed segment takes batches again after a restart.", "cleaning", 20, _reopen_closed_segments
    ),
    "cut-too-early": Bug("Retention keeps half of what it should.", "cleaning", 4, _cut_too_early),
    "serve-damage": Bug("Readers get bytes with a wrong checksum.", "damage", 6, _serve_damage),
}

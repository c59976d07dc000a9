"""Planted bugs in the handling of bad disks and lost machines: failing reads, lost writes, full syncs."""

from __future__ import annotations

from typing import Any, Final

from longhall.cluster.replication import full_sync
from longhall.cluster.replication.replica_repair import ReplicaRepair
from longhall.log import snapshots
from longhall.log.wal import Wal
from simulation.bug import Bug
from simulation.planted_topics import _trust_torn_frames

_Replacements = list[tuple[Any, str, Any]]


def _end_the_log_at_an_error() -> _Replacements:
    good: Any = Wal._walk

    def walk(self: Any, chain: Any, from_position: int, durable: int) -> Any:
        try:
            yield from good(self, chain, from_position, durable)
        except OSError:
            return

    return [(Wal, "_walk", walk)]


def _leave_a_segment_out() -> _Replacements:
    good: Any = full_sync._segments

    def segments(hall: Any, body: bytes) -> Any:
        return good(hall, body)[:-1]

    return [(full_sync, "_segments", segments)]


def _give_up_what_the_disk_lost() -> _Replacements:
    return [(ReplicaRepair, "request", lambda self, number, offset, on_repaired: False)]


def _believe_a_damaged_snapshot() -> _Replacements:
    return [(snapshots, "crc32c", _trust_torn_frames()[0][2])]


DISK_BUGS: Final[dict[str, Bug]] = {
    "end-the-log-at-an-error": Bug(
        "A read error is taken for the end of the log.", "failed-reads", 10, _end_the_log_at_an_error
    ),
    "believe-a-damaged-snapshot": Bug(
        "The checksum of a snapshot is not checked.", "quarantine", 4, _believe_a_damaged_snapshot
    ),
    "give-up-what-the-disk-lost": Bug(
        "Messages that a disk has lost are refused although other replicas have them.",
        "lying-disks",
        10,
        _give_up_what_the_disk_lost,
    ),
    "leave-a-segment-out": Bug("A full sync lacks the last segment.", "lost-hosts", 4, _leave_a_segment_out),
}

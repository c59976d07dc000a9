"""Background jobs over segments. The janitor process runs them; the simulation runs them in virtual time.

A job takes a disk and plain values, and returns plain values; both are sent as msgpack. A job never touches the end of
the active segment. Readers see nothing that a job writes before the caller installs it, with two exceptions: an index,
which is only a cache, and bytes that are repaired in place. Times are arguments. The janitor finds a job by its name in
`BACKGROUND_JOBS`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Final

import msgspec

from longhall.log.checkpoint_jobs import SMALL_FILE, publish_snapshot, remove, sync_directories, write_small_file
from longhall.log.compaction import AbortedRanges, Compaction, Survey
from longhall.log.index import IndexBuilder
from longhall.log.index_files import publish_index
from longhall.log.keymap import KeyMap
from longhall.log.layout import base_offset_of, segment_path
from longhall.log.segment import INDEX_INTERVAL_BYTES
from longhall.log.segment_repair import find_damage, mend_segment, read_stretch, restore_from_memory
from longhall.log.segment_rewrite import discard_cleaned, install_segment, rewrite_segment
from longhall.log.segment_scan import Damage, scan_segment
from longhall.log.settled_cleaning import free_settled
from longhall.log.verification import verify_index, verify_log, verify_slice, verify_snapshots
from longhall.world.ports import Disk

KEY_MEMORY_BYTES_MAX: Final = 64 * 1024 * 1024

Natural = Annotated[int, msgspec.Meta(ge=0)]
Interval = Annotated[int, msgspec.Meta(ge=1)]


class SegmentArguments(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A segment, given by its path or by its partition and base offset. Without a size the whole file counts."""

    path: str = ""
    partition: Natural | None = None
    base_offset: Natural | None = None
    size_bytes: Natural | None = None
    interval_bytes: Interval = INDEX_INTERVAL_BYTES

    def place(self) -> str:
        """The path of the segment."""
        if self.path or self.partition is None or self.base_offset is None:
            return self.path
        return segment_path(self.partition, self.base_offset)


class PartitionArguments(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """All closed segments of a partition, in order (base offset and size), and the bound of the compaction.

    `until_offset` is at most the last stable offset and the base of the active segment. `aborted` has all aborted
    transactions that begin below it, as (producer, first offset, offset of the marker). An emptied batch is kept only
    for a producer in `producers`; without that list it is kept for every producer.
    """

    directory: str
    segments: list[tuple[Natural, Natural]]
    dirty_from: Natural
    until_offset: Natural
    now_ms: int
    delete_retention_ms: Natural
    aborted: list[tuple[int, int, int]] = []
    producers: list[int] | None = None
    key_memory_bytes_max: Natural = KEY_MEMORY_BYTES_MAX
    interval_bytes: Interval = INDEX_INTERVAL_BYTES


class DirectoryArguments(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The directory of a partition, and the base offsets of some of its segments."""

    directory: str
    segments: list[Natural] = []


def verify_segment(disk: Disk, arguments: dict[str, object]) -> dict[str, object]:
    """Check every batch of a segment. `damaged` lists (position, size, first offset, next offset or -1)."""
    result, _ = _scan_segment(disk, msgspec.convert(arguments, SegmentArguments))
    return result


def rebuild_index(disk: Disk, arguments: dict[str, object]) -> dict[str, object]:
    """Check every batch of a segment and rebuild the index file beside it. Returns the same as `verify_segment`.

    If the disk is too full for the index file, the result has the index as `index`, so that the segment can still be
    read.
    """
    task = msgspec.convert(arguments, SegmentArguments)
    result, encoded = _scan_segment(disk, task)
    try:
        publish_index(disk, task.place(), encoded)
    except OSError:
        result["index"] = encoded
    return result


def compact_segments(disk: Disk, arguments: dict[str, object]) -> dict[str, object]:
    """Rewrite the closed segments of a partition without the records that key compaction removes. Installs nothing.

    Returns `cleaned_until`, the offset at which the next dirty part begins. It is lower than `until_offset` if the keys
    did not fit into memory: install, then run the job again. Returns also, for each segment that changed, its base
    offset, old and new size, and newest time. Damaged segments are not rewritten; they are listed by base offset.
    """
    task = msgspec.convert(arguments, PartitionArguments)
    keys = KeyMap(max(task.until_offset - task.dirty_from, 0), task.key_memory_bytes_max)
    survey = Survey(keys, AbortedRanges(task.aborted), task.dirty_from, task.until_offset)
    damaged: list[int] = []
    for base_offset, size_bytes in task.segments:
        file = disk.open(_segment_path(task.directory, base_offset))
        try:
            if not survey.read(scan_segment(file, base_offset, size_bytes)):
                damaged.append(base_offset)
        finally:
            file.close()
    active = None if task.producers is None else frozenset(task.producers)
    keeper = Compaction(survey, task.now_ms, task.delete_retention_ms, active)
    changed: list[dict[str, int]] = []
    for base_offset, size_bytes in task.segments:
        if base_offset in damaged or base_offset >= survey.known_until:
            continue
        path = _segment_path(task.directory, base_offset)
        rewritten = rewrite_segment(disk, path, base_offset, size_bytes, keeper, task.interval_bytes)
        if rewritten.changed:
            changed.append(
                {
                    "base_offset": base_offset,
                    "old_size_bytes": rewritten.old_size_bytes,
                    "new_size_bytes": rewritten.size_bytes,
                    "next_offset": rewritten.next_offset,
                    "max_timestamp_ms": rewritten.max_timestamp_ms,
                    "record_count": rewritten.record_count,
                }
            )
    return {"cleaned_until": survey.known_until, "segments": changed, "damaged": damaged}


def install_segments(disk: Disk, arguments: dict[str, object]) -> dict[str, object]:
    """Replace segments by their rewritten files. Idempotent: after a crash, segments that were replaced are skipped.

    The caller keeps readers away from these segments until the job is done and the new sizes are known.
    """
    task = msgspec.convert(arguments, DirectoryArguments)
    installed = [base for base in task.segments if install_segment(disk, _segment_path(task.directory, base))]
    return {"installed": installed}


def discard_rewritten(disk: Disk, arguments: dict[str, object]) -> dict[str, object]:
    """Remove rewritten segments that were never installed. Runs at every start, before the next compaction."""
    task = msgspec.convert(arguments, DirectoryArguments)
    return {"removed": discard_cleaned(disk, task.directory)}


def _scan_segment(disk: Disk, task: SegmentArguments) -> tuple[dict[str, object], bytes]:
    """Scan a segment. Returns the result of the job and the encoded index."""
    path = task.place()
    base_offset = base_offset_of(path)
    file = disk.open(path)
    try:
        size_bytes = file.size() if task.size_bytes is None else min(task.size_bytes, file.size())
        built = IndexBuilder(base_offset, task.interval_bytes)
        damaged: list[list[int]] = []
        for found in scan_segment(file, base_offset, size_bytes):
            if isinstance(found, Damage):
                damaged.append(found.numbers())
            else:
                built.note(found.position, found.header)
    finally:
        file.close()
    result: dict[str, object] = {
        "size_bytes": size_bytes,
        "next_offset": built.next_offset,
        "max_timestamp_ms": built.max_timestamp_ms,
        "max_timestamp_offset": built.max_timestamp_offset,
        "record_count": built.record_count,
        "batch_count": built.batch_count,
        "damaged": damaged,
    }
    return result, built.encode(size_bytes)


def _segment_path(directory: str, base_offset: int) -> str:
    return f"{directory}/{base_offset:020d}.log"


BACKGROUND_JOBS: Final[dict[str, Callable[[Disk, dict[str, object]], dict[str, object]]]] = {
    "verify_segment": verify_segment,
    "rebuild_index": rebuild_index,
    "compact_segments": compact_segments,
    "free_settled": free_settled,
    "install_segments": install_segments,
    "discard_rewritten": discard_rewritten,
    "find_damage": find_damage,
    "read_stretch": read_stretch,
    "mend_segment": mend_segment,
    "restore_from_memory": restore_from_memory,
    "verify_slice": verify_slice,
    "verify_index": verify_index,
    "verify_snapshots": verify_snapshots,
    "verify_log": verify_log,
    "write_snapshot": publish_snapshot,
    SMALL_FILE: write_small_file,
    "sync_directories": sync_directories,
    "remove": remove,
}

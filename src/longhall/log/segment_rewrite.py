"""Rewrites a closed segment without dead records: offsets do not change, gaps stay.

A `RetentionRule` decides what is dead: by key compaction, or by the settled messages of a queue. A batch that loses
nothing is copied byte for byte, so rewriting twice gives the same file. The last batch of a segment always stays, at
least as a header, so that the file still shows where the segment ends.

    <base>.log  --rewrite-->  <base>.log.cleaned + <base>.index.cleaned, synced  --install-->  <base>.log + <base>.index

Until `install_segment` nothing changes for readers, and `discard_cleaned` removes the leftovers of a crash.
"""

from __future__ import annotations

from typing import Final, Protocol, final

from longhall.errors import Code, LonghallError
from longhall.log.index import IndexBuilder
from longhall.log.segment_scan import CHUNK_BYTES, Damage, scan_segment
from longhall.records.batch import BatchHeader, Record, build_batch, parse_header, read_records
from longhall.world.ports import Disk, File

CLEANED: Final = ".cleaned"

KEEP: Final = 0  # Copy the batch.
DROP: Final = 1  # Remove the batch with its offsets.
HOLLOW: Final = 2  # Keep the header, remove the records.
OPEN: Final = 3  # Decide for each record.


class RetentionRule(Protocol):
    """Decides what is dead. It sees all batches of a partition in order, from its first closed segment on."""

    def fate(self, header: BatchHeader, batch: bytes) -> int:
        """KEEP, DROP, HOLLOW or OPEN."""

    def keeps(self, header: BatchHeader, record: Record) -> bool:
        """True if a record of an opened batch stays."""

    def outlives_records(self, header: BatchHeader) -> bool:
        """True if the header of an opened batch stays when none of its records does."""

    def horizon_ms(self, header: BatchHeader, kept: list[Record]) -> int:
        """The delete horizon that the batch should have; -1 for none."""


@final
class Rewritten:
    """The result of one rewrite. `changed` is False when there is nothing to install."""

    def __init__(self, changed: bool, old_size_bytes: int, built: IndexBuilder, size_bytes: int) -> None:
        self.changed = changed
        self.old_size_bytes = old_size_bytes
        self.size_bytes = size_bytes
        self.next_offset = built.next_offset
        self.max_timestamp_ms = built.max_timestamp_ms
        self.record_count = built.record_count


def rewrite_segment(
    disk: Disk, path: str, base_offset: int, size_bytes: int, rule: RetentionRule, interval_bytes: int
) -> Rewritten:
    """Write the live part of the segment at `path` to a new file beside it, with its index, and make both durable.

    Raises STORAGE_DAMAGED if the segment is damaged: damage that may be repaired must not be removed.
    """
    source = disk.open(path)
    target = _Target(disk, source, path + CLEANED)
    built = IndexBuilder(base_offset, interval_bytes)
    try:
        for found in scan_segment(source, base_offset, size_bytes):
            if isinstance(found, Damage):
                raise LonghallError(Code.STORAGE_DAMAGED, f"{path} is damaged at byte {found.position}")
            kept = rewrite_batch(rule, found.header, found.batch)
            if kept is None and found.position + found.header.size_bytes == size_bytes:
                kept = _hollowed(found.header, found.batch)
            if kept is None:
                target.skip(found.position)
                continue
            position = target.put(found.position, found.batch, kept)
            built.note(position, found.header if kept is found.batch else parse_header(kept, 0))
        if not target.changed:
            target.discard()
            return Rewritten(False, size_bytes, built, size_bytes)
        target.finish()
        _write_whole(disk, cleaned_index_path(path), built.encode(target.size_bytes))
        disk.sync_directory(path.rpartition("/")[0])
        return Rewritten(True, size_bytes, built, target.size_bytes)
    except BaseException:
        target.discard()
        raise
    finally:
        source.close()


def rewrite_batch(rule: RetentionRule, header: BatchHeader, batch: bytes) -> bytes | None:
    """The live part of one batch: the same object if nothing changes, None if nothing stays."""
    fate = rule.fate(header, batch)
    if fate == KEEP:
        return batch
    if fate == DROP:
        return None
    if fate == HOLLOW:
        return _hollowed(header, batch)
    try:
        records = read_records(batch, 0)
    except LonghallError:
        # It is sealed; or the checksum is right, so a client sent the batch in this form. Its records cannot be judged.
        return batch
    kept = [record for record in records if rule.keeps(header, record)]
    if not kept:
        return _hollowed(header, batch) if rule.outlives_records(header) else None
    horizon_ms = rule.horizon_ms(header, kept)
    had_ms = header.base_timestamp_ms if header.has_delete_horizon else -1
    if len(kept) == len(records) and horizon_ms == had_ms:
        return batch
    return rebuild_batch(header, kept, header.compression, horizon_ms)


def _hollowed(header: BatchHeader, batch: bytes) -> bytes:
    """The batch without records; its header still has the offsets, sequence and epoch."""
    return batch if header.record_count == 0 else rebuild_batch(header, [], 0, -1)


def rebuild_batch(header: BatchHeader, kept: list[Record], compression: int, horizon_ms: int) -> bytes:
    """The batch with only these records: offsets, producer, epoch and times do not change."""
    return build_batch(
        kept,
        base_offset=header.base_offset,
        leader_epoch=header.leader_epoch,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        compression=compression,
        transactional=header.is_transactional,
        log_append_time=header.is_log_append_time,
        control=header.is_control,
        last_offset=header.last_offset,
        delete_horizon_ms=horizon_ms,
        # In a batch stamped by the broker, readers use the newest time for every record.
        max_timestamp_ms=header.max_timestamp_ms if header.is_log_append_time or not kept else -1,
    )


def cleaned_index_path(path: str) -> str:
    """The index of the rewritten segment before it is installed."""
    return path.removesuffix(".log") + ".index" + CLEANED


def install_segment(disk: Disk, path: str) -> bool:
    """Replace the old segment with the rewritten one; False if there is none, so a repeat is harmless.

    The rename of the segment is the commit point. The old index is removed durably before it, and the new one is added
    after it: a crash in between leaves a segment without an index, which is rebuilt, and never one with the index of
    another file.
    """
    if not disk.exists(path + CLEANED):
        return False
    directory = path.rpartition("/")[0]
    index = path.removesuffix(".log") + ".index"
    if disk.exists(index):
        disk.remove(index)
        disk.sync_directory(directory)
    disk.rename(path + CLEANED, path)
    disk.sync_directory(directory)
    if disk.exists(cleaned_index_path(path)):
        disk.rename(cleaned_index_path(path), index)
        disk.sync_directory(directory)
    return True


def discard_cleaned(disk: Disk, directory: str) -> int:
    """Remove the files of a rewrite that was never installed; returns how many there were."""
    names = [name for name in disk.list(directory) if name.endswith(CLEANED)]
    for name in names:
        disk.remove(f"{directory}/{name}")
    return len(names)


def _write_whole(disk: Disk, path: str, data: bytes) -> None:
    file = disk.open(path, create=True)
    try:
        file.truncate(0)
        file.write_at(0, (data,))
        disk.sync_now(file)
    finally:
        file.close()


@final
class _Target:
    """The new file. It is created at the first difference, and then starts with the unchanged bytes before it."""

    def __init__(self, disk: Disk, source: File, path: str) -> None:
        self.changed = False
        self.size_bytes = 0
        self._disk = disk
        self._source = source
        self._path = path
        self._file: File | None = None
        self._parts: list[bytes] = []
        self._parts_bytes = 0

    def put(self, position: int, before: bytes, after: bytes) -> int:
        """Write the batch that stood at `position`; returns its new position."""
        if after is not before and not self.changed:
            self._begin(position)
        return self.append(after)

    def skip(self, position: int) -> None:
        """Leave out the batch at `position`."""
        if not self.changed:
            self._begin(position)

    def append(self, batch: bytes) -> int:
        at = self.size_bytes
        self.size_bytes += len(batch)
        if self.changed:
            self._parts.append(batch)
            self._parts_bytes += len(batch)
            if self._parts_bytes >= CHUNK_BYTES:
                self._flush()
        return at

    def finish(self) -> None:
        self._flush()
        assert self._file is not None
        self._disk.sync_now(self._file)
        self._file.close()

    def discard(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
        for path in (self._path, cleaned_index_path(self._path.removesuffix(CLEANED))):
            if self._disk.exists(path):
                self._disk.remove(path)

    def _begin(self, unchanged_bytes: int) -> None:
        assert self.size_bytes == unchanged_bytes, "everything before the first difference is the same"
        self.changed = True
        self._file = self._disk.open(self._path, create=True)
        self._file.truncate(0)
        for at in range(0, unchanged_bytes, CHUNK_BYTES):
            self._file.write_at(at, (self._source.read_at(at, min(CHUNK_BYTES, unchanged_bytes - at)),))

    def _flush(self) -> None:
        if self._parts:
            assert self._file is not None
            self._file.write_at(self.size_bytes - self._parts_bytes, self._parts)
            self._parts = []
            self._parts_bytes = 0

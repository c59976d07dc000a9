"""Markers: the control records that end a transaction in each of its partitions.

    key:   version i16 = 0 | type i16 (0 abort, 1 commit)
    value: version i16 = 0 | coordinator epoch i32

A marker is a batch with one record, the control and transactional bits, and the id of its producer. Readers skip
unknown types, so `parse_marker` returns None for those and does not refuse them. This module does not know which
transactions are open.
"""

from __future__ import annotations

import struct
from typing import Final, final

from longhall.errors import Code, LonghallError
from longhall.records.batch import BatchHeader, Record, build_batch, read_records

ABORT: Final = 0
COMMIT: Final = 1

_KEY: Final = struct.Struct(">hh")
_VALUE: Final = struct.Struct(">hi")
_VERSION: Final = 0
_MARKER_BYTES_MAX: Final = 65536  # Far above any marker: a control batch is never compressed or large.


@final
class Marker:
    """The outcome of one producer's transaction in one partition."""

    def __init__(self, commit: bool, coordinator_epoch: int) -> None:
        self.commit = commit
        self.coordinator_epoch = coordinator_epoch


def build_marker(
    commit: bool,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int,
    timestamp_ms: int,
    base_offset: int = 0,
    leader_epoch: int = -1,
) -> bytes:
    """The batch that ends a transaction of this producer."""
    key = _KEY.pack(_VERSION, COMMIT if commit else ABORT)
    value = _VALUE.pack(_VERSION, coordinator_epoch)
    return build_batch(
        [Record(base_offset, timestamp_ms, key, value)],
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transactional=True,
        control=True,
    )


def parse_marker(buffer: bytes, at: int, header: BatchHeader) -> Marker | None:
    """The marker in the control batch at `at`; None for an emptied batch and for control records of another type."""
    assert header.is_control, "only control batches have markers"
    records = read_records(buffer, at, _MARKER_BYTES_MAX)
    if not records:
        return None
    key = records[0].key
    value = records[0].value
    if key is None or len(key) < _KEY.size:
        raise LonghallError(Code.CORRUPT_MESSAGE, "a control record has no type")
    version: int
    kind: int
    version, kind = _KEY.unpack_from(key)
    if version < 0:
        raise LonghallError(Code.CORRUPT_MESSAGE, "a control record has an impossible version")
    if kind != COMMIT and kind != ABORT:
        return None
    if value is None or len(value) < _VALUE.size:
        raise LonghallError(Code.CORRUPT_MESSAGE, "a marker has no coordinator epoch")
    coordinator_epoch: int = _VALUE.unpack_from(value)[1]
    return Marker(kind == COMMIT, coordinator_epoch)

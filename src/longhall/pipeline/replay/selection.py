"""The selection of messages to replay: by time, key and headers. SQL conditions are Spark's.

Pure: over record batches with the columns of an archive.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from longhall.pipeline.archive.manifest import Piece
from longhall.records.varint import INT64_MAX, INT64_MIN


class Selection(NamedTuple):
    """A message must be in the period, have one of the keys if there are any, and have all of the headers.

    A header without a value matches any value.
    """

    since_ms: int = INT64_MIN
    until_ms: int = INT64_MAX  # Excluded.
    keys: tuple[bytes, ...] = ()
    headers: tuple[tuple[str, bytes | None], ...] = ()

    def may_be_in(self, piece: Piece) -> bool:
        """True if a file can have selected messages."""
        if not piece.path or piece.last_ms < self.since_ms:
            return False
        return piece.sealed or piece.first_ms < self.until_ms  # Of a sealed batch only the latest time is known.

    def select(self, batch: Any) -> Any:
        """The selected messages of a record batch, in order."""
        if self.since_ms != INT64_MIN or self.until_ms != INT64_MAX:
            times = pc.divide(batch.column("timestamp").cast(pa.int64()), 1000)
            batch = batch.filter(pc.and_(pc.greater_equal(times, self.since_ms), pc.less(times, self.until_ms)))
        if self.keys:
            batch = batch.filter(pc.is_in(batch.column("key"), value_set=pa.array(self.keys, pa.binary())))
        if self.headers and batch.num_rows:
            wanted = [self._has_headers(each) for each in batch.column("headers").to_pylist()]
            batch = batch.filter(pa.array(wanted, pa.bool_()))
        return batch

    def _has_headers(self, entries: list[dict[str, Any]] | None) -> bool:
        return all(
            any(each["key"] == name and (value is None or each["value"] == value) for each in entries or [])
            for name, value in self.headers
        )

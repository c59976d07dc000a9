"""The source of replayed messages: the files of an archive or a range of a topic, by partition.

Both yield record batches with the same columns.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import pyarrow as pa

from longhall.pipeline.archive.manifest import Piece
from longhall.pipeline.archive.opening import PieceReader
from longhall.pipeline.archive.parquet import COLUMNS
from longhall.pipeline.arrow_table import SPARK_TYPES, TYPES
from longhall.pipeline.partition_reader import ReadTask, read
from longhall.pipeline.replay.selection import Selection

NAMES: Final = ("topic", "partition", *COLUMNS)
SPARK_SCHEMA: Final = ", ".join(f"{name} {SPARK_TYPES[name]}" for name in NAMES)
_SCHEMA: Final = pa.schema([pa.field(name, TYPES[name]) for name in NAMES])


class Source(NamedTuple):
    """One partition from an offset on: in files of an archive, or at its leader."""

    topic: str
    partition: int
    start: int
    end: int
    selection: Selection
    reader: PieceReader | None = None
    pieces: tuple[Piece, ...] = ()
    work: ReadTask | None = None

    def batches(self) -> Iterator[Any]:
        """The selected messages, in the order of offsets."""
        for batch in self._all():
            chosen = self.selection.select(batch)
            if chosen.num_rows:
                yield self._placed(chosen)

    def _all(self) -> Iterator[Any]:
        if self.work is not None:
            yield from read(self.work)
            return
        assert self.reader is not None
        for piece in self.pieces:
            for batch in self.reader.read(piece):
                if piece.base < self.start:
                    batch = batch.filter(pa.compute.greater_equal(batch.column("offset"), self.start))
                yield batch

    def _placed(self, batch: Any) -> Any:
        topic = pa.repeat(pa.scalar(self.topic, pa.string()), batch.num_rows)
        partition = pa.repeat(pa.scalar(self.partition, pa.int32()), batch.num_rows)
        return pa.RecordBatch.from_arrays([topic, partition, *batch.columns], schema=_SCHEMA)


def read_sources(batches: Iterator[Any]) -> Iterator[Any]:
    """The messages of sources, which come one a row."""
    for batch in batches:
        for pickled in batch.column(0).to_pylist():
            source: Source = pickle.loads(pickled)
            yield from source.batches()

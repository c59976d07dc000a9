"""An archived topic as a DataFrame with the columns of the data source: the files that its latest manifest names."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa

from longhall.pipeline.archive.manifest import Piece
from longhall.pipeline.archive.manifest_log import ManifestLog
from longhall.pipeline.archive.opening import ArchiveKeys, PieceReader, check_readable
from longhall.pipeline.archive.parquet import COLUMNS
from longhall.pipeline.archive.storage import Storage
from longhall.pipeline.arrow_table import SPARK_TYPES, TYPES
from longhall.pipeline.refusals import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TASKS_MAX: Final = 200
_NAMES: Final = ("topic", "partition", *COLUMNS)


class Archived(NamedTuple):
    """The records of a topic, and whether the first of them were deleted before they were archived."""

    records: DataFrame
    is_cut: bool


class Portion(NamedTuple):
    """One file, read by one task."""

    reader: PieceReader
    piece: Piece


def read_archive(
    spark: SparkSession, url: str, topic: str, from_ms: int = 0, keys: ArchiveKeys | None = None
) -> Archived:
    """All records of a topic in an archive; files that end before `from_ms` are not opened. Sealed ones are opened with
    `keys` (`opening.unwrap_keys`). Raises PipelineError.
    """
    storage = Storage(url)
    manifest = ManifestLog(storage, topic).latest()
    if manifest is None:
        raise PipelineError(
            f"there is nothing of {topic} in the archive {storage.name}; is it there, and that its name?"
        )
    check_readable(manifest, keys)
    topic_id = bytes.fromhex(manifest.topic_id)
    portions = [
        Portion(PieceReader(url, topic, topic_id, int(number), keys), piece)
        for number, pieces in manifest.partitions.items()
        for piece in pieces
        if piece.path and piece.last_ms >= from_ms
    ]
    is_cut = any(pieces and (pieces[0].base > 0 or pieces[0].lost) for pieces in manifest.partitions.values())
    rows = [(bytearray(pickle.dumps(each)),) for each in portions]
    tasks = spark.sparkContext.parallelize(rows, max(1, min(len(rows), TASKS_MAX)))
    schema = ", ".join(f"{name} {SPARK_TYPES[name]}" for name in _NAMES)
    return Archived(spark.createDataFrame(tasks, "portion binary").mapInArrow(_read, schema), is_cut)


def _read(batches: Iterator[Any]) -> Iterator[Any]:
    """The messages of portions, which come one a row."""
    schema = pa.schema([pa.field(name, TYPES[name]) for name in _NAMES])
    for batch in batches:
        for pickled in batch.column(0).to_pylist():
            portion: Portion = pickle.loads(pickled)
            reader = portion.reader
            for found in reader.read(portion.piece):
                topic = pa.repeat(pa.scalar(reader.topic, pa.string()), found.num_rows)
                partition = pa.repeat(pa.scalar(reader.partition, pa.int32()), found.num_rows)
                yield pa.RecordBatch.from_arrays([topic, partition, *found.columns], schema=schema)

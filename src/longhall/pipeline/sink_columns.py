"""The columns of a DataFrame that can be written, and its Arrow batches as the columns that `packing` takes.

Columns are those of Spark's Kafka sink: `value`, and optionally `key`, `topic`, `partition` and `headers`; other
columns are ignored. With `keepTimestamps` the column `timestamp` becomes the time of the messages. The Kafka sink has
no such option: there, and here without it, a message has the time at which it was written.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import StructType

from longhall.pipeline.refusals import PipelineError
from longhall.records.packer import Column, Rows, encode_headers

_TEXT: Final = ("binary", "string")
_TYPES: Final = {
    "key": _TEXT,
    "value": _TEXT,
    "topic": ("string",),
    "partition": ("int",),
    "headers": ("array<struct<key:string,value:binary>>",),
    "timestamp": ("timestamp",),
}


class Layout(NamedTuple):
    """The positions of the columns; -1 for those that are missing or not used."""

    key: int
    value: int
    topic: int
    partition: int
    headers: int
    timestamp: int
    fixed_topic: str  # Goes before the column.


def layout_of(schema: StructType, topic: str, keep_timestamps: bool) -> Layout:
    """Find the columns. Raises PipelineError for a missing column or another type."""
    found: dict[str, int] = {}
    for number, field in enumerate(schema.fields):
        wanted = _TYPES.get(field.name)
        if wanted is None or (field.name == "timestamp" and not keep_timestamps):
            continue
        kind = field.dataType.simpleString()
        if kind not in wanted:
            raise PipelineError(f"the column {field.name} is {kind}; it must be {' or '.join(wanted)}")
        found[field.name] = number
    if "value" not in found:
        raise PipelineError("there is no column value to write; name one, as in selectExpr('to_json(...) AS value')")
    if not topic and "topic" not in found:
        raise PipelineError("the option topic is missing, and there is no column topic that would say where to write")
    if keep_timestamps and "timestamp" not in found:
        raise PipelineError("with the option keepTimestamps there must be a column timestamp")
    return Layout(**{name: found.get(name, -1) for name in _TYPES}, fixed_topic=topic)


def rows_of(batch: Any, layout: Layout, now_ms: int) -> Rows:
    """The columns of one Arrow batch. Raises PipelineError for a row that cannot be written."""
    count = int(batch.num_rows)
    rows = Rows(count, _bytes(batch, layout.key), _bytes(batch, layout.value))
    if layout.fixed_topic:
        rows.topics = [layout.fixed_topic]
    else:
        _set_topics(rows, batch.column(layout.topic))
    if layout.partition >= 0:
        chosen = batch.column(layout.partition)
        if count and (lowest := pc.min(chosen).as_py()) is not None and lowest < 0:
            raise PipelineError(f"a row wants partition {lowest}; partitions are numbered from 0")
        rows.partitions = _plain(pc.fill_null(chosen, -1))
    if layout.timestamp >= 0:
        times = batch.column(layout.timestamp).cast(pa.timestamp("us", "UTC")).cast(pa.int64())
        rows.times = _plain(pc.fill_null(times, now_ms * 1000))
    if layout.headers >= 0:
        rows.headers = [_headers(each) for each in batch.column(layout.headers).to_pylist()]
    return rows


def _bytes(batch: Any, number: int) -> Column:
    if number < 0 or batch.num_rows == 0:
        return Column(b"", b"", b"")
    column = batch.column(number)
    if column.null_count == len(column):
        return Column(b"", b"", b"")
    if column.type not in (pa.binary(), pa.string()):
        column = column.cast(pa.binary())  # Spark has been told to use the larger kind.
    present = b""
    if column.null_count:
        present = _plain(column.is_valid().cast(pa.uint8()))
    _, bounds, data = column.buffers()
    ends = bounds.slice(4 * column.offset, 4 * (len(column) + 1)).to_pybytes()
    first, last = (int.from_bytes(ends[at : at + 4], "little") for at in (0, len(ends) - 4))
    # Only the part that these rows use: a batch may be a slice of a large one.
    content = data.slice(first, last - first).to_pybytes() if data is not None else b""
    return Column(ends, content, present, first)


def _set_topics(rows: Rows, column: Any) -> None:
    if column.null_count:
        raise PipelineError("a row has no topic; fill the column topic, or set the option topic for all rows")
    encoded = column.dictionary_encode()
    rows.topics = encoded.dictionary.to_pylist()
    if len(rows.topics) > 1:
        rows.topic_of = _plain(encoded.indices.cast(pa.int32()))


def _plain(column: Any) -> bytes:
    """The numbers of a column without nulls, as bytes."""
    size = column.type.bit_width // 8
    content: bytes = column.buffers()[1].slice(column.offset * size, len(column) * size).to_pybytes()
    return content


def _headers(entries: list[dict[str, Any]] | None) -> bytes:
    if not entries:
        return b"\x00"
    for each in entries:
        if each is None or each["key"] is None:
            raise PipelineError("a header has no name; its key must not be null")
    return encode_headers([(each["key"], each["value"]) for each in entries])

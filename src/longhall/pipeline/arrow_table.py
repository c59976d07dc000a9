"""Decoded columns as Arrow: the schema that Spark sees, and record batches of that schema.

The columns are those of Spark's Kafka source. A schema with fewer columns costs only those.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, final

import pyarrow as pa
import pyarrow.compute as pc

from longhall.records.columns import HEADERS, KEY, OFFSET, TIMESTAMP, VALUE, Columns

HEADER_TYPE: Final = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
TYPES: Final[dict[str, Any]] = {
    "key": pa.binary(),
    "value": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestampType": pa.int32(),
    "headers": pa.list_(pa.field("element", HEADER_TYPE)),
}
# The same for Spark, as text that it parses.
SPARK_TYPES: Final = {
    "key": "binary",
    "value": "binary",
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "timestampType": "int",
    "headers": "array<struct<key:string,value:binary>>",
}
_WANTS: Final = {"key": KEY, "value": VALUE, "offset": OFFSET, "timestamp": TIMESTAMP, "headers": HEADERS}


def wants_of(names: Sequence[str]) -> int:
    """The fields that the decoder has to read for these columns."""
    wanted = 0
    for name in names:
        wanted |= _WANTS.get(name, 0)
    return wanted


SEALED_BATCH: Final = 2  # The timestampType of a row that is a whole sealed batch: its value, as it is stored.


@final
class Shape:
    """Record batches of one partition of one topic, with the columns that were asked for."""

    def __init__(self, names: Sequence[str], topic: str, partition: int) -> None:
        self.names = tuple(names)
        self.schema = pa.schema([pa.field(name, TYPES[name]) for name in names])
        self._topic = topic
        self._partition = partition
        self._same: dict[str, Any] = {}  # Columns in which every row is the same, as long as the longest so far.
        self._every_second = pa.array([], pa.int64())

    def batch(self, columns: Columns, data: bytes, timestamp_type: int) -> Any:
        """A record batch of the noted rows, gathered from the bytes that they lie in."""
        buffer = pa.py_buffer(data)
        arrays = [self._array(name, columns, buffer, timestamp_type) for name in self.names]
        if not arrays:  # Rows without columns: `count(*)` asks for them.
            return pa.RecordBatch.from_struct_array(pa.array([{}] * columns.rows, pa.struct([])))
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def sealed_rows(self, batches: Sequence[tuple[int, int, bytes]]) -> Any:
        """A record batch with a row for each sealed batch: its offset, its time in milliseconds, and its bytes."""
        given: dict[str, list[Any]] = {
            "offset": [offset for offset, _, _ in batches],
            "timestamp": [time_ms * 1000 for _, time_ms, _ in batches],
            "timestampType": [SEALED_BATCH] * len(batches),
            "value": [content for _, _, content in batches],
            "topic": [self._topic] * len(batches),
            "partition": [self._partition] * len(batches),
        }
        nothing = [None] * len(batches)
        arrays = [pa.array(given.get(name, nothing), TYPES[name]) for name in self.names]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _array(self, name: str, columns: Columns, data: Any, timestamp_type: int) -> Any:
        rows = int(columns.rows)
        if name == "key":
            return self._gathered(rows, columns.keys.getvalue(), columns.key_nulls.getvalue(), data)
        if name == "value":
            return self._gathered(rows, columns.values.getvalue(), columns.value_nulls.getvalue(), data)
        if name == "offset":
            return _plain(pa.int64(), rows, columns.offsets.getvalue())
        if name == "timestamp":
            return _plain(TYPES[name], rows, columns.times.getvalue())
        if name == "headers":
            return self._headers(rows, columns, data)
        if name == "topic":
            return self._repeated("topic", self._topic, rows)
        if name == "partition":
            return self._repeated("partition", self._partition, rows)
        return self._repeated(f"timestampType{timestamp_type}", timestamp_type, rows)

    def _repeated(self, name: str, value: object, rows: int) -> Any:
        known = self._same.get(name)
        if known is None or len(known) < rows:
            kind = TYPES["topic"] if name == "topic" else pa.int32()
            known = self._same[name] = pa.repeat(pa.scalar(value, kind), rows)
        return known.slice(0, rows)

    def _gathered(self, rows: int, bounds: bytes, nulls: bytes, data: Any) -> Any:
        """Every second entry of a column whose offsets are the bounds; null rows have none."""
        if rows == 0 or len(nulls) == 8 * rows:
            return pa.nulls(rows, pa.binary())
        entries = pa.Array.from_buffers(pa.binary(), 2 * rows - 1, [None, pa.py_buffer(bounds), data])
        if len(self._every_second) < rows:
            self._every_second = pa.array(range(0, 2 * rows, 2), pa.int64())
        places = self._every_second.slice(0, rows)
        if nulls:
            places = pc.if_else(_marked(rows, nulls), None, places)
        return pc.take(entries, places, boundscheck=False)

    def _headers(self, rows: int, columns: Columns, data: Any) -> Any:
        count = int(columns.headers)
        names = self._gathered(count, columns.header_names.getvalue(), b"", data)
        values = self._gathered(count, columns.header_values.getvalue(), columns.header_nulls.getvalue(), data)
        each = pa.StructArray.from_arrays([_text(names), values], fields=list(HEADER_TYPE))
        ends = pa.py_buffer(bytes(4) + columns.header_ends.getvalue())
        # A message without headers has null there, as in Spark's Kafka source.
        lists = pa.Array.from_buffers(TYPES["headers"], rows, [None, ends], children=[each])
        return pc.if_else(pc.equal(pc.list_value_length(lists), 0), None, lists)


def _plain(kind: Any, rows: int, content: bytes) -> Any:
    return pa.Array.from_buffers(kind, rows, [None, pa.py_buffer(content)])


def _marked(rows: int, numbers: bytes) -> Any:
    """A column that is true in the numbered rows."""
    marked = memoryview(bytearray(rows))
    for number in memoryview(numbers).cast("q"):
        marked[number] = 1
    return pc.equal(pa.Array.from_buffers(pa.uint8(), rows, [None, pa.py_buffer(marked)]), 1)


def _text(names: Any) -> Any:
    """Header names as text: bytes that are not UTF-8 are replaced, as Java does it."""
    try:
        return names.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([name.decode("utf-8", "replace") for name in names.to_pylist()], pa.string())

"""Rows packed column by column are the same bytes as records built one by one, in the partitions of Kafka's clients."""

from __future__ import annotations

import struct
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.types import BinaryType, DataType, IntegerType, LongType, StringType, StructType

from longhall.pipeline.refusals import PipelineError
from longhall.pipeline.sink_columns import Layout, layout_of, rows_of
from longhall.records.batch import Record, build_batch, check_batch, read_records, with_producer
from longhall.records.compression import CODEC_MAX
from longhall.records.packer import OPEN_BYTES_MAX, Packer
from longhall.records.partitioner import partition_for

NOW_MS = 1_700_000_000_000
TYPES = {
    "key": pa.binary(),
    "value": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "headers": pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
    "timestamp": pa.timestamp("us", "UTC"),
}

maybe_bytes = st.none() | st.binary(max_size=200)
headers = st.none() | st.lists(st.tuples(st.text(max_size=5), maybe_bytes), max_size=3)

KINDS: dict[str, DataType] = {
    "binary": BinaryType(),
    "string": StringType(),
    "int": IntegerType(),
    "bigint": LongType(),
}


def spark_schema(text: str) -> StructType:
    schema = StructType()
    for name, kind in (each.split() for each in text.split(",")):
        schema.add(name, KINDS[kind])
    return schema


def layout(*names: str, topic: str = "") -> Layout:
    return Layout(**{name: names.index(name) if name in names else -1 for name in TYPES}, fixed_topic=topic)


def table(**columns: list[Any]) -> Any:
    arrays = [pa.array(column, TYPES[name]) for name, column in columns.items()]
    return pa.record_batch(arrays, names=list(columns))


def packed(
    batch: Any, of: Layout, partitions: int = 1, pack_bytes: int = 1 << 20
) -> list[tuple[str, int, list[Record]]]:
    packer = Packer(pack_bytes=pack_bytes)
    rows = rows_of(batch, of, NOW_MS)
    for topic in rows.topics:
        packer.learn(topic, partitions)
    out = []
    at = 0
    while at < rows.count:
        at = packer.pack(rows, at, NOW_MS)
        out += packer.take()
    out += packer.take(everything=True)
    opened = []
    for pack in out:
        built = pack.batch(0)
        check_batch(built, 0, len(built))
        opened.append((pack.topic, pack.partition, read_records(built, 0)))
    return opened


@given(
    st.lists(st.tuples(maybe_bytes, maybe_bytes, headers, st.integers(0, 1 << 45)), min_size=1, max_size=30),
    st.integers(0, CODEC_MAX),
    st.integers(0, 40),
)
def test_a_pack_is_what_build_batch_makes(
    rows: list[tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]] | None, int]], codec: int, skip: int
) -> None:
    """Also of a slice that does not begin where its buffers do."""
    batch = table(
        key=[row[0] for row in rows],
        value=[row[1] for row in rows],
        headers=[None if row[2] is None else [{"key": k, "value": v} for k, v in row[2]] for row in rows],
        timestamp=[row[3] * 1000 for row in rows],
    ).slice(min(skip, len(rows) - 1))
    rows = rows[min(skip, len(rows) - 1) :]
    packer = Packer(pack_bytes=1 << 30)
    packer.learn("t", 1)
    packer.pack(rows_of(batch, layout("key", "value", "headers", "timestamp", topic="t"), NOW_MS), 0, NOW_MS)
    [pack] = packer.take(everything=True)
    expected = build_batch([Record(-1, row[3], row[0], row[1], tuple(row[2] or ())) for row in rows], compression=codec)
    assert pack.batch(codec) == expected
    assert with_producer(pack.batch(codec), 7, 3, 11, True) == build_batch(
        [Record(-1, row[3], row[0], row[1], tuple(row[2] or ())) for row in rows],
        compression=codec,
        producer_id=7,
        producer_epoch=3,
        base_sequence=11,
        transactional=True,
    )


@given(st.lists(st.tuples(maybe_bytes, st.none() | st.integers(0, 4), st.sampled_from(["a", "b"])), max_size=60))
def test_every_row_goes_where_a_kafka_client_would_send_it(rows: list[tuple[bytes | None, int | None, str]]) -> None:
    batch = table(
        key=[row[0] for row in rows],
        value=[struct.pack(">i", number) for number in range(len(rows))],
        partition=[row[1] for row in rows],
        topic=[row[2] for row in rows],
    )
    seen: list[int] = []
    for topic, partition, records in packed(batch, layout("key", "value", "partition", "topic"), 5, pack_bytes=100):
        numbers = [struct.unpack(">i", record.value or b"")[0] for record in records]
        assert numbers == sorted(numbers)
        for number in numbers:
            key, wanted, its_topic = rows[number]
            assert its_topic == topic
            if wanted is not None:
                assert partition == wanted
            elif key is not None:
                assert partition == partition_for(key, 5)
        seen += numbers
    assert sorted(seen) == list(range(len(rows)))


def test_rows_without_a_key_fill_one_partition_after_another() -> None:
    batch = table(value=[bytes(100)] * 35)
    got = packed(batch, layout("value", topic="t"), 3, pack_bytes=1000)
    assert [partition for _, partition, _ in got] == [0, 1, 2, 0]
    assert sum(len(records) for _, _, records in got) == 35
    assert all(record.timestamp_ms == NOW_MS for _, _, records in got for record in records)


def test_what_is_open_is_bounded_over_all_partitions() -> None:
    """A topic with many partitions does not fill the memory of a task with packs that are nearly full."""
    packer = Packer(pack_bytes=1 << 30)
    packer.learn("t", 64)
    rows = rows_of(
        table(key=[str(n).encode() for n in range(100)], value=[bytes(1 << 20)] * 100),
        layout("key", "value", topic="t"),
        NOW_MS,
    )
    assert packer.pack(rows, 0, NOW_MS) == OPEN_BYTES_MAX >> 20
    assert sum(int(pack.rows) for pack in packer.take()) == OPEN_BYTES_MAX >> 20
    assert packer.open_bytes == 0


@pytest.mark.parametrize(
    ("schema", "topic", "words"),
    [
        ("key binary", "t", "no column value"),
        ("value int", "t", "the column value is int; it must be binary or string"),
        ("value binary", "", "the option topic is missing"),
        ("value binary, topic int", "", "the column topic is int; it must be string"),
        ("value binary, partition bigint", "t", "the column partition is bigint; it must be int"),
        ("value binary, headers string", "t", "the column headers is string"),
    ],
)
def test_a_frame_that_cannot_be_written_is_refused(schema: str, topic: str, words: str) -> None:
    with pytest.raises(PipelineError, match=words):
        layout_of(spark_schema(schema), topic, keep_timestamps=False)


def test_unknown_columns_are_ignored() -> None:
    found = layout_of(spark_schema("id bigint, value string, timestamp string"), "t", keep_timestamps=False)
    assert (found.value, found.timestamp, found.key) == (1, -1, -1)


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"value": [b""], "topic": [None]}, "a row has no topic"),
        ({"value": [b""], "topic": ["t"], "partition": [-1]}, "a row wants partition -1"),
        ({"value": [b""], "topic": ["t"], "headers": [[{"key": None, "value": b""}]]}, "a header has no name"),
    ],
)
def test_an_invalid_row_is_refused(columns: dict[str, list[Any]], words: str) -> None:
    with pytest.raises(PipelineError, match=words):
        rows_of(table(**columns), layout(*columns), NOW_MS)

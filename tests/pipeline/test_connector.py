"""The same program on Spark's own Kafka connector and on ours, with only the format's name changed: the same rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from longhall.client.hall import Hall
from longhall.pipeline.blocking_client import BlockingClient
from longhall.records import compression
from longhall.records.batch import Record
from tests.left_out import leave_out
from tests.pipeline.conftest import MakeTopic, Produce, ReadTopic
from tests.pipeline.connector import missing_connector

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

OURS = "longhall"
THEIRS = "kafka"


@pytest.fixture(scope="module", autouse=True)
def connector() -> None:
    if (reason := missing_connector()) is not None:
        leave_out(reason)


@pytest.fixture(scope="module")
def topic(make_topic: MakeTopic, produce: Produce) -> str:
    """Three partitions with all that a record may have: nulls, headers, every compression, one partition empty."""
    name = make_topic(3)
    at_ms = 1_700_000_000_000
    for codec in (compression.NONE, compression.GZIP, compression.SNAPPY, compression.LZ4, compression.ZSTD):
        produce(
            name,
            0,
            [Record(-1, at_ms + codec * 100 + number, b"%d" % number, b"v" * number * 40) for number in range(50)],
            compression=codec,
        )
    produce(name, 1, [Record(-1, at_ms, None, b"no key"), Record(-1, at_ms + 1, b"no value", None)])
    headers = (("trace", b"abc"), ("trace", b"again"), ("empty", b""), ("none", None), ("näme", "wört".encode()))
    produce(name, 1, [Record(-1, at_ms + 2, b"", b"", headers), Record(-1, at_ms + 3, b"k", b"plain")])
    return name


def rows_of(frame: DataFrame) -> list[Any]:
    return sorted((tuple(row) for row in frame.collect()), key=lambda row: (row[2], row[3], row[4]))


def test_the_schemas_are_the_same(topic: str, read_topic: ReadTopic) -> None:
    for headers in ("false", "true"):
        ours, theirs = (read_topic(topic, format_name=name, includeHeaders=headers).schema for name in (OURS, THEIRS))
        assert ours == theirs


@pytest.mark.parametrize(
    "options",
    [
        {"includeHeaders": "true"},
        {"minPartitions": "7"},
        {"startingOffsets": '{"TOPIC":{"0":17,"1":-2,"2":-2}}', "endingOffsets": '{"TOPIC":{"0":203,"1":3,"2":-1}}'},
        {"startingTimestamp": "1700000000230", "startingOffsetsByTimestampStrategy": "latest"},
        {"endingOffsetsByTimestamp": '{"TOPIC":{"0":1700000000320,"1":1700000000002,"2":0}}'},
        {"assign": '{"TOPIC":[1,2]}'},
        {"subscribePattern": "TOPIC|nothing-.*"},
    ],
    ids=["headers", "min-partitions", "offsets", "starting-time", "ending-time", "assign", "pattern"],
)
def test_a_batch_gives_the_same_rows(topic: str, spark: SparkSession, bootstrap: str, options: dict[str, str]) -> None:
    def program(format_name: str) -> DataFrame:
        given = {name: value.replace("TOPIC", topic) for name, value in options.items()}
        if not {"assign", "subscribePattern"} & given.keys():
            given["subscribe"] = topic
        return spark.read.format(format_name).option("kafka.bootstrap.servers", bootstrap).options(**given).load()

    theirs = rows_of(program(THEIRS))
    assert theirs
    assert rows_of(program(OURS)) == theirs


def test_committed_and_aborted_messages(
    make_topic: MakeTopic, blocking_client: BlockingClient, read_topic: ReadTopic
) -> None:
    topic = make_topic()
    _write_transactions(blocking_client, topic)
    for level, count in (("read_committed", 2), ("read_uncommitted", 3)):
        theirs, ours = (
            rows_of(read_topic(topic, format_name=name, **{"kafka.isolation.level": level})) for name in (THEIRS, OURS)
        )
        assert len(theirs) == count
        assert ours == theirs


def _write_transactions(blocking_client: BlockingClient, topic: str) -> None:
    from longhall.client.producer import Options, Producer
    from longhall.world.real.clock import RealClock

    async def write(hall: Hall) -> None:
        producer = Producer(hall, RealClock(), Options(transactional_id=f"tx-{topic}"))
        for word, commit in ((b"one", True), (b"two", False), (b"three", True)):
            await producer.begin()
            await producer.send(topic, word)
            await producer.flush()
            await (producer.commit() if commit else producer.abort())

    blocking_client.ask(write)


def test_a_stream_gives_the_same_batches(topic: str, spark: SparkSession, bootstrap: str, tmp_path: Path) -> None:
    seen: dict[str, list[list[tuple[Any, ...]]]] = {}
    ends: dict[str, list[Any]] = {}
    for format_name in (THEIRS, OURS):
        batches = seen[format_name] = []

        def keep(frame: DataFrame, number: int, batches: list[list[tuple[Any, ...]]] = batches) -> None:
            batches.append(rows_of(frame))

        stream = spark.readStream.format(format_name).option("kafka.bootstrap.servers", bootstrap)
        stream = stream.options(
            subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger="100", includeHeaders="true"
        )
        query = (
            stream.load()
            .writeStream.foreachBatch(keep)
            .option("checkpointLocation", str(tmp_path / format_name))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        ends[format_name] = [_offsets(progress.sources[0].endOffset) for progress in query.recentProgress]
    assert len(seen[THEIRS]) >= 3
    assert seen[OURS] == seen[THEIRS]
    assert ends[OURS] == ends[THEIRS]


def _offsets(text: str) -> dict[str, Any]:
    """Ours have the ids of the topics beside them."""
    return {topic: parts for topic, parts in json.loads(text).items() if not topic.startswith("#")}

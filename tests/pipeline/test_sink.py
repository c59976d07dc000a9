"""Writing with `format("longhall")` through Spark itself: what arrives, and that it arrives once."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.request import Request, urlopen

import pytest

from longhall.client.hall import Hall
from longhall.pipeline.blocking_client import BlockingClient
from longhall.pipeline.refusals import one_line_reason
from longhall.pipeline.sink_options import STAGE_PREFIX
from longhall.records.batch import Record
from longhall.records.partitioner import partition_for
from soak.node import Node
from tests.pipeline.conftest import FreshName, MakeTopic, Produce, ReadTopic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@pytest.fixture
def write(bootstrap: str) -> Any:
    def append(frame: DataFrame, **options: str) -> None:
        writer = frame.write.format("longhall").mode("append").option("kafka.bootstrap.servers", bootstrap)
        writer.options(**options).save()

    return append


def refusal(frame: DataFrame, write: Any, **options: str) -> str:
    with pytest.raises(Exception) as failed:
        write(frame, **options)
    line = one_line_reason(failed.value)
    assert line is not None, failed.value
    return line


def test_every_column_arrives(spark: SparkSession, write: Any, make_topic: MakeTopic, read_topic: ReadTopic) -> None:
    topic = make_topic(4)
    frame = spark.sql("""
        SELECT 'k1' AS key, 'v1' AS value, array(named_struct('key', 'h', 'value', binary('x'))) AS headers,
               int(null) AS partition, timestamp('2024-05-06 07:08:09.123Z') AS timestamp
        UNION ALL SELECT null, null, null, 3, timestamp('2024-05-06 07:08:09Z')""")
    write(frame.coalesce(1), topic=topic, keepTimestamps="true")
    options = {"includeHeaders": "true", "kafka.isolation.level": "read_committed"}
    rows = {bytes(row.key or b""): row for row in read_topic(topic, **options).collect()}
    first, second = rows[b"k1"], rows[b""]
    assert (bytes(first.value), first.partition) == (b"v1", partition_for(b"k1", 4))
    assert [(each.key, bytes(each.value)) for each in first.headers] == [("h", b"x")]
    assert first.timestamp.isoformat() == "2024-05-06T07:08:09.123000"
    assert (second.value, second.partition, second.headers) == (None, 3, None)


def test_the_topic_column_and_the_precedence_of_the_option(
    spark: SparkSession, write: Any, make_topic: MakeTopic, read_topic: ReadTopic
) -> None:
    one, two = make_topic(1), make_topic(2)
    frame = spark.sql(f"SELECT 'a' AS value, '{one}' AS topic UNION ALL SELECT 'b', '{two}'")
    write(frame)
    write(frame, topic=two)
    got = Counter((row.topic, bytes(row.value)) for row in read_topic(f"{one},{two}").collect())
    assert got == Counter({(one, b"a"): 1, (two, b"b"): 2, (two, b"a"): 1})


def test_a_stage_is_removed_with_its_batch(
    spark: SparkSession, write: Any, make_topic: MakeTopic, blocking_client: BlockingClient
) -> None:
    async def stages(hall: Hall) -> set[str]:
        return {topic.name or "" for topic in await hall.topics.list() if (topic.name or "").startswith(STAGE_PREFIX)}

    before = blocking_client.ask(stages)
    write(spark.range(10).selectExpr("string(id) AS value"), topic=make_topic(1))
    assert blocking_client.ask(stages) == before


def test_a_numbered_batch_is_written_once(
    spark: SparkSession, write: Any, make_topic: MakeTopic, read_topic: ReadTopic, fresh_name: FreshName
) -> None:
    topic, name = make_topic(2), fresh_name("daily")
    frame = spark.range(100).selectExpr("string(id) AS key", "string(id) AS value")
    for batch in ("0", "0", "1", "1"):
        write(frame, topic=topic, transactionalId=name, batchId=batch)
    got = Counter(bytes(row.value) for row in read_topic(topic, schema="value binary").collect())
    assert got == Counter({b"%d" % number: 2 for number in range(100)})


def test_misuse_ends_in_one_line(spark: SparkSession, write: Any, make_topic: MakeTopic) -> None:
    topic = make_topic(1)
    frame = spark.range(1).selectExpr("string(id) AS value", "5 AS partition", "string(null) AS topic")
    assert refusal(frame.select("value"), write).startswith("the option topic is missing")
    assert refusal(frame.select("partition"), write, topic=topic).startswith("there is no column value")
    assert refusal(frame.select("value", "topic"), write).startswith("a row has no topic")
    line = refusal(frame.select("value", "partition"), write, topic=topic)
    assert line == f"a row wants partition 5 of {topic}, which has 1"
    nobody = {"kafka.bootstrap.servers": "127.0.0.1:1", "topic": topic}
    assert refusal(frame.select("value"), write, **nobody).startswith("no broker answers at 127.0.0.1:1")


def test_a_stream_writes_every_row_once_though_a_task_and_a_commit_fail(
    spark: SparkSession,
    bootstrap: str,
    make_topic: MakeTopic,
    produce: Produce,
    read_topic: ReadTopic,
    tmp_path: Path,
) -> None:
    """The task fails in the middle of its rows, the commit after it was made; each time the query is started again."""
    from tests.pipeline.failing import FailingSource

    spark.dataSource.register(FailingSource)
    source, target = make_topic(1), make_topic(2)
    for base in range(0, 400, 100):
        produce(source, 0, [Record(-1, 0, b"%d" % number, b"%d" % number) for number in range(base, base + 100)])

    def run(name: str) -> None:
        reader = spark.readStream.format("longhall").option("kafka.bootstrap.servers", bootstrap)
        frame = reader.options(subscribe=source, startingOffsets="earliest", maxOffsetsPerTrigger="200").load()
        writer = frame.select("key", "value").writeStream.format(name).option("kafka.bootstrap.servers", bootstrap)
        writer = writer.options(topic=target, checkpointLocation=str(tmp_path / "checkpoint"), marks=str(tmp_path))
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()

    for _ in range(2):
        with pytest.raises(Exception, match="on purpose"):
            run("longhall-failing")
    run("longhall")
    options = {"kafka.isolation.level": "read_committed"}
    got = Counter(bytes(row.value) for row in read_topic(target, schema="value binary", **options).collect())
    assert got == Counter(b"%d" % number for number in range(400))


def test_a_queue_is_written_like_a_topic(spark: SparkSession, write: Any, fresh_name: FreshName, node: Node) -> None:
    name = fresh_name("queue")

    def ask(path: str, body: object) -> Any:
        data = json.dumps(body).encode()
        request = Request(f"http://{node.http}/api/v1{path}", data, {"Content-Type": "application/json"})
        with urlopen(request) as answer:
            return json.loads(answer.read())

    ask("/queues", {"name": name})
    write(spark.range(5).selectExpr("concat('m', id) AS value"), topic=name)
    got = ask(f"/queues/{name}/receive", {"count": 10, "wait_ms": 5000})["messages"]
    assert Counter(message["body"] for message in got) == Counter({f"m{number}": 1 for number in range(5)})

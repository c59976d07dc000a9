"""Streams of `format("longhall")`: limits, restarts, new partitions, topics made anew, published offsets."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from longhall.client.hall import Hall
from longhall.pipeline.blocking_client import BlockingClient
from longhall.pipeline.refusals import one_line_reason
from longhall.records.batch import Record
from tests.pipeline.conftest import FreshName, MakeTopic, Produce

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Run = Callable[..., list[list[bytes]]]


def words(*values: bytes) -> list[Record]:
    return [Record(-1, 1000, None, value) for value in values]


@pytest.fixture
def run(spark: SparkSession, bootstrap: str, tmp_path: Path) -> Run:
    """What there is, with a checkpoint that the next call goes on from; returns the values of each batch."""

    def stream(topic: str, **options: str) -> list[list[bytes]]:
        seen: list[list[bytes]] = []

        def keep(frame: DataFrame, number: int) -> None:
            seen.append(sorted(row.value for row in frame.select("value").collect()))

        source = spark.readStream.format("longhall").option("kafka.bootstrap.servers", bootstrap)
        query = (
            source.options(**{"subscribe": topic, "startingOffsets": "earliest", **options})
            .load()
            .writeStream.foreachBatch(keep)
            .option("checkpointLocation", str(tmp_path / topic))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        return seen

    return stream


def test_a_stream_resumes(make_topic: MakeTopic, produce: Produce, run: Run) -> None:
    topic = make_topic()
    produce(topic, 0, words(b"a", b"b", b"c"))
    assert run(topic, maxOffsetsPerTrigger="2") == [[b"a", b"b"], [b"c"]]
    produce(topic, 0, words(b"d"))
    assert run(topic) == [[b"d"]]
    assert run(topic) == []


def test_a_limit_of_bytes(make_topic: MakeTopic, produce: Produce, run: Run) -> None:
    topic = make_topic()
    for number in range(4):
        produce(topic, 0, words(*[b"%d" % number + b"x" * 1000] * 10))
    batches = run(topic, maxBytesPerTrigger="21000")
    assert sum(len(batch) for batch in batches) == 40
    assert 2 <= len(batches) <= 4


def test_new_partitions_are_read_from_their_beginning(
    make_topic: MakeTopic, produce: Produce, blocking_client: BlockingClient, run: Run
) -> None:
    topic = make_topic()
    produce(topic, 0, words(b"a"))
    assert run(topic) == [[b"a"]]
    blocking_client.ask(lambda hall: hall.topics.grow(topic, 2))
    produce(topic, 1, words(b"b"))
    assert run(topic) == [[b"b"]]


def test_a_recreated_topic_is_detected(
    make_topic: MakeTopic, produce: Produce, blocking_client: BlockingClient, run: Run
) -> None:
    topic = make_topic()
    produce(topic, 0, words(b"old"))
    run(topic)
    blocking_client.ask(lambda hall: hall.topics.delete(topic))
    make_topic(name=topic)
    produce(topic, 0, words(b"new", b"newer"))
    with pytest.raises(Exception, match="made anew") as failure:
        run(topic)
    line = one_line_reason(failure.value)
    assert line is not None
    assert line.startswith(f"topic {topic} was deleted and made anew since it was read; set the option failOnDataLoss")
    assert run(topic, failOnDataLoss="false") == [[b"new", b"newer"]]


def test_deleted_messages(make_topic: MakeTopic, produce: Produce, blocking_client: BlockingClient, run: Run) -> None:
    topic = make_topic()
    produce(topic, 0, words(b"a"))
    run(topic)
    produce(topic, 0, words(b"b", b"c", b"d"))
    blocking_client.ask(lambda hall: hall.topics.delete_records(topic, {0: 3}))
    with pytest.raises(Exception, match="offsets 1 to 2 were deleted before they were read"):
        run(topic)
    assert run(topic, failOnDataLoss="false") == [[b"d"]]


def test_lag_is_published_as_a_consumer_group(
    make_topic: MakeTopic,
    produce: Produce,
    blocking_client: BlockingClient,
    fresh_name: FreshName,
    bootstrap: str,
    run: Run,
) -> None:
    topic, group = make_topic(2), fresh_name("group")
    produce(topic, 0, words(b"a", b"b"))
    run(topic, groupId=group)
    produce(topic, 1, words(b"c"))

    async def look(hall: Hall) -> dict[tuple[str, int], tuple[int, int]]:
        return {place: (done.offset, end) for place, (done, end) in (await hall.groups.lag(group)).items()}

    assert blocking_client.ask(look) == {(topic, 0): (2, 2), (topic, 1): (0, 1)}
    assert offsets_by_librdkafka(bootstrap, group) == {(topic, 0): 2, (topic, 1): 0}
    described = shown("group", "describe", group, "--address", bootstrap, "-o", "json")
    rows = [(row["topic"], row["partition"], row["committed"], row["lag"]) for row in json.loads(described)["offsets"]]
    assert rows == [(topic, 0, 2, 0), (topic, 1, 0, 1)]


def offsets_by_librdkafka(bootstrap: str, group: str) -> dict[tuple[str, int], int]:
    """What the admin client that most people use says of a group."""
    from confluent_kafka import ConsumerGroupTopicPartitions
    from confluent_kafka.admin import AdminClient

    admin = AdminClient({"bootstrap.servers": bootstrap})
    [asked] = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)]).values()
    return {(each.topic, each.partition): each.offset for each in asked.result(60).topic_partitions}


def shown(*words: str) -> str:
    """What a command prints."""
    return subprocess.run(
        [sys.executable, "-m", "longhall.cli", *words], capture_output=True, text=True, check=True, timeout=60
    ).stdout


def test_progress_has_offsets_and_lag(
    make_topic: MakeTopic, produce: Produce, spark: SparkSession, bootstrap: str, tmp_path: Path
) -> None:
    topic = make_topic()
    produce(topic, 0, words(b"a", b"b", b"c"))
    source = spark.readStream.format("longhall").option("kafka.bootstrap.servers", bootstrap)
    query = (
        source.options(subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger="2")
        .load()
        .writeStream.format("noop")
        .option("checkpointLocation", str(tmp_path))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    progress = query.recentProgress[0].sources[0]
    assert json.loads(progress.endOffset)[topic] == {"0": 2}
    assert json.loads(progress.latestOffset)[topic] == {"0": 3}

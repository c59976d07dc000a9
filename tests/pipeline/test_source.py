"""Batches of `format("longhall")` as a user of Spark meets them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from longhall.records.batch import Record
from tests.pipeline.conftest import MakeTopic, Produce, ReadTopic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.timeout(240)


def records(count: int, first: int = 0) -> list[Record]:
    return [
        Record(-1, 1_700_000_000_000 + number, b"key-%d" % number, b"value-%d" % number)
        for number in range(first, first + count)
    ]


def test_a_topic_is_read_with_all_its_columns(make_topic: MakeTopic, produce: Produce, read_topic: ReadTopic) -> None:
    topic = make_topic(2)
    produce(topic, 0, records(3))
    produce(topic, 1, [Record(-1, 5, None, None, (("trace", b"abc"), ("none", None)))])
    rows = read_topic(topic, includeHeaders="true").orderBy("partition", "offset").collect()
    assert [(row.topic, row.partition, row.offset, row.timestampType) for row in rows] == [
        (topic, 0, 0, 0),
        (topic, 0, 1, 0),
        (topic, 0, 2, 0),
        (topic, 1, 0, 0),
    ]
    assert [(row.key, row.value) for row in rows] == [
        (b"key-0", b"value-0"),
        (b"key-1", b"value-1"),
        (b"key-2", b"value-2"),
        (None, None),
    ]
    assert rows[0].headers is None
    assert [tuple(header) for header in rows[3].headers] == [("trace", b"abc"), ("none", None)]


def test_offsets_bound_what_is_read(make_topic: MakeTopic, produce: Produce, read_topic: ReadTopic) -> None:
    topic = make_topic()
    produce(topic, 0, records(10))
    rows = read_topic(
        topic, startingOffsets=json.dumps({topic: {"0": 3}}), endingOffsets=json.dumps({topic: {"0": 7}})
    ).collect()
    assert [row.offset for row in rows] == [3, 4, 5, 6]


def test_a_topic_that_is_not_there_is_one_clear_line(spark: SparkSession, read_topic: ReadTopic) -> None:
    from longhall.pipeline.refusals import clear_line

    with pytest.raises(Exception, match="there is no topic") as failure:
        read_topic("no-such-topic").collect()
    assert clear_line(failure.value) == "there is no topic no-such-topic; `longhall topic list` shows what there is"

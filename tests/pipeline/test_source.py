"""Batches of `format("longhall")` as a user of Spark meets them."""

from __future__ import annotations

import json
import re
from http.client import HTTPConnection
from typing import TYPE_CHECKING, Any

import pytest

from longhall.records.batch import Record
from soak.node import Node
from tests.pipeline.conftest import FreshName, MakeTopic, Produce, ReadTopic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


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


def test_a_missing_topic_is_one_line(spark: SparkSession, read_topic: ReadTopic) -> None:
    from longhall.pipeline.refusals import one_line_reason

    with pytest.raises(Exception, match="there is no topic") as failure:
        read_topic("no-such-topic").collect()
    assert (
        one_line_reason(failure.value) == "there is no topic no-such-topic; `longhall topic list` shows what there is"
    )


def test_only_the_columns_that_are_asked_for(make_topic: MakeTopic, produce: Produce, read_topic: ReadTopic) -> None:
    topic = make_topic()
    produce(topic, 0, records(2))
    frame = read_topic(topic, schema="offset bigint, value binary")
    assert [tuple(row) for row in frame.collect()] == [(0, b"value-0"), (1, b"value-1")]
    with pytest.raises(Exception, match="there is no column wisdom string"):
        read_topic(topic, schema="wisdom string").collect()


CHOSEN = "partition = 1 and offset >= 3 and offset < 12 and timestamp > timestamp_millis(1700000000008)"


@pytest.fixture
def numbered(make_topic: MakeTopic, produce: Produce) -> str:
    topic = make_topic(2)
    for partition in (0, 1):
        for first in (0, 10):
            produce(topic, partition, records(10, first))
    return topic


def test_filters_are_obeyed_while_reading(numbered: str, read_topic: ReadTopic) -> None:
    chosen = read_topic(numbered, pushDownFilters="true").where(CHOSEN)
    assert [(row.partition, row.offset) for row in chosen.collect()] == [(1, 9), (1, 10), (1, 11)]
    assert read_topic(numbered, pushDownFilters="true").where("offset = 99").count() == 0


def bytes_out(node: Node, topic: str) -> int:
    """What all hosts have given to readers of a topic, as their metrics tell."""
    hosts: Any = node.ready.get("nodes", [node.ready])
    size_bytes = 0
    for host in hosts:
        connection = HTTPConnection(host["http"])
        connection.request("GET", "/metrics")
        text = connection.getresponse().read().decode()
        connection.close()
        rows = re.findall(r"^kafka_server_brokertopicmetrics_bytesout_total{(.*)} (\S+)$", text, re.MULTILINE)
        size_bytes += sum(int(float(value)) for labels, value in rows if f'topic="{topic}"' in labels)
    return size_bytes


def test_filtered_messages_are_not_fetched(
    node: Node, make_topic: MakeTopic, produce: Produce, read_topic: ReadTopic
) -> None:
    """Of 16 MB only the fetches around the rows go over the wire; without the option all of it does."""
    topic = make_topic(2)
    for partition in (0, 1):
        for number in range(20):
            produce(topic, partition, [Record(-1, number * 1000, None, bytes(400_000))])

    def fetched(chosen: str, push_down: str = "true") -> tuple[int, int]:
        before = bytes_out(node, topic)
        rows = read_topic(topic, pushDownFilters=push_down).where(chosen).count()
        return rows, bytes_out(node, topic) - before

    rows, whole = fetched("partition = 1 and offset = 19", "false")
    assert rows == 1
    assert whole >= 16_000_000
    for chosen, count in (
        ("partition = 1 and offset = 19", 1),
        ("offset < 2", 4),
        ("timestamp >= timestamp_millis(19000)", 2),
        ("partition in (1) and timestamp > timestamp_millis(17000) and offset <= 18", 1),
    ):
        rows, size_bytes = fetched(chosen)
        assert rows == count, chosen
        assert size_bytes < whole // 3, chosen


def test_one_dataframe_serves_several_queries(numbered: str, read_topic: ReadTopic) -> None:
    """Spark would plan it once for the first filter; so filters are only applied on request."""
    frame = read_topic(numbered)
    assert frame.where(CHOSEN).count() == 3
    assert frame.count() == 40
    assert frame.where("offset < 5").union(frame.where("offset >= 5")).select("offset").distinct().count() == 20


def test_a_queue_is_read_by_its_name(node: Node, read_topic: ReadTopic, fresh_name: FreshName) -> None:
    queue = fresh_name("queue")
    for path, document in (
        ("", {"name": queue}),
        (f"/{queue}/messages", {"messages": [{"body": "hello"}, {"body": "world"}]}),
    ):
        connection = HTTPConnection(node.http)
        body = json.dumps(document)
        connection.request("POST", f"/api/v1/queues{path}", body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        assert answer.status < 300, answer.read()
        connection.close()
    assert sorted(row.value for row in read_topic(queue).collect()) == [b"hello", b"world"]

"""An archive as a DataFrame, and as the input of reconciliations: the files that the manifest names."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from longhall.pipeline.archive.job import Options, archive
from longhall.pipeline.archive_frame import read_archive
from longhall.pipeline.blocking_client import BlockingClient
from longhall.pipeline.fates import Period
from longhall.pipeline.job_input import ArchiveInput, LiveInput
from longhall.pipeline.reconcile import reconcile
from longhall.pipeline.refusals import PipelineError
from longhall.records.batch import Record
from tests.pipeline.conftest import MakeTopic, Produce
from tests.pipeline.day import BEGIN_MS, DAY_MS, Day

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MORNING_MS = 1_700_000_000_000


@pytest.fixture
def archived(spark: SparkSession, bootstrap: str, tmp_path: Path) -> Callable[..., str]:
    def place(*topics: str) -> str:
        options = Options(bootstrap=bootstrap, topics=topics, to=str(tmp_path / "archive"))
        archive(spark, options, lambda words: None, lambda done, total: None)
        return options.to

    return place


def test_an_archive_is_a_frame_like_the_topic(
    spark: SparkSession,
    archived: Callable[..., str],
    make_topic: MakeTopic,
    produce: Produce,
    blocking_client: BlockingClient,
) -> None:
    topic = make_topic(2)
    produce(topic, 0, [Record(-1, MORNING_MS + number, b"k", b"%d" % number, (("h", b"x"),)) for number in range(5)])
    produce(topic, 0, [Record(-1, MORNING_MS + DAY_MS, None, b"next day")])
    produce(topic, 1, [Record(-1, MORNING_MS, None, None)])
    place = archived(topic)
    whole = read_archive(spark, place, topic)
    assert not whole.is_cut
    rows = sorted(whole.records.collect(), key=lambda row: (row.partition, row.offset))
    assert [(row.topic, row.partition, row.offset) for row in rows] == [
        *((topic, 0, offset) for offset in range(6)),
        (topic, 1, 0),
    ]
    assert [(each.key, bytes(each.value)) for each in rows[0].headers] == [("h", b"x")]
    assert (rows[6].key, rows[6].value) == (None, None)
    # What is written beside the manifest does not count, and files that end before a time are not opened.
    (Path(place) / f"topic={topic}/partition=0/date=2023-11-14/stray.parquet").write_bytes(b"no Parquet")
    later = read_archive(spark, place, topic, from_ms=MORNING_MS + DAY_MS)
    assert [bytes(row.value) for row in later.records.collect()] == [b"next day"]


def test_an_archive_that_begins_late_says_so(
    spark: SparkSession,
    archived: Callable[..., str],
    make_topic: MakeTopic,
    produce: Produce,
    blocking_client: BlockingClient,
) -> None:
    topic = make_topic()
    produce(topic, 0, [Record(-1, MORNING_MS, None, b"%d" % number) for number in range(3)])
    blocking_client.ask(lambda hall: hall.topics.delete_records(topic, {0: 2}))
    cut = read_archive(spark, archived(topic), topic)
    assert cut.is_cut
    assert [row.offset for row in cut.records.collect()] == [2]


def test_what_is_not_archived_is_said_in_one_line(
    spark: SparkSession, archived: Callable[..., str], make_topic: MakeTopic, produce: Produce
) -> None:
    topic = make_topic()
    produce(topic, 0, [Record(-1, MORNING_MS, None, b"x")])
    place = archived(topic)
    with pytest.raises(PipelineError, match="there is nothing of other in the archive"):
        read_archive(spark, place, "other")
    evidence = ArchiveInput(spark, place)
    assert not evidence.has_audit(topic)
    with pytest.raises(PipelineError, match=f"has no audit topic {topic}.deliveries; archive it beside {topic}"):
        evidence.queue(topic, Period())
    assert evidence.topic(topic, Period()).sent.count() == 1


def test_an_archived_day_is_judged_like_a_live_one(
    spark: SparkSession, bootstrap: str, archived: Callable[..., str], day: tuple[str, Day]
) -> None:
    queue, made = day
    live = LiveInput(spark, bootstrap)
    place = ArchiveInput(spark, archived(queue, f"{queue}.deliveries"))
    assert live.has_audit(queue)
    assert place.has_audit(queue)
    assert not live.has_audit(f"{queue}.none")
    period = Period(BEGIN_MS, BEGIN_MS + DAY_MS)
    balance = reconcile(queue, place.queue(queue, period), period)
    assert balance.sent == made.planted.messages
    assert {(row["partition"], row["offset"]) for row in balance.lost_messages} == made.planted.lost
    assert {(row["partition"], row["offset"]) for row in balance.twice_messages} == made.planted.twice

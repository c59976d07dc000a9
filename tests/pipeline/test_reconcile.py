"""Reconciliation finds what was planted, and nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from longhall.pipeline.fates import Period
from longhall.pipeline.reconcile import InputRecords, read_live_input, reconcile
from longhall.pipeline.refusals import PipelineError
from longhall.queues.audit import Audited, audit_record
from longhall.queues.envelope import derive_message_id
from tests.pipeline.conftest import MakeTopic
from tests.pipeline.day import BEGIN_MS, DAY_MS, Day

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COLUMNS = (
    "partition int, offset bigint, timestamp timestamp, key binary, value binary, "
    "headers array<struct<key:string,value:binary>>"
)


def test_a_day_with_losses_and_repeats(spark: SparkSession, bootstrap: str, day: tuple[str, Day]) -> None:
    queue, made = day
    planted = made.planted
    period = Period(BEGIN_MS, BEGIN_MS + DAY_MS)
    balance = reconcile(queue, read_live_input(spark, bootstrap, queue, period, None), period)
    assert balance.sent == planted.messages
    assert {(row["partition"], row["offset"]) for row in balance.lost_messages} == planted.lost
    assert {(row["partition"], row["offset"]) for row in balance.twice_messages} == planted.twice
    late = {(row["partition"], row["offset"]) for row in balance.twice_messages if row["after_settle"]}
    assert late == planted.after_settle
    died = sum(planted.died.values())
    settled = planted.messages - len(planted.lost) - died - planted.open
    assert balance.fates == {
        "settled": settled, "died": died, "moved": 0, "open": planted.open, "purged": 0, "unknown": 0,
        "lost": len(planted.lost),
    }  # fmt: skip
    assert (balance.twice, balance.after_settle, balance.settled_twice, balance.gap_offsets) == (14, 1, 0, 0)
    assert not balance.is_complete()
    # A part of the day has what was sent in it, whenever it was settled.
    morning = Period(BEGIN_MS, BEGIN_MS + DAY_MS // 3)
    part = reconcile(queue, read_live_input(spark, bootstrap, queue, morning, None), morning)
    assert part.sent == sum(record.timestamp_ms < morning.until_ms for records in made.sent for record in records)
    assert sum(part.fates.values()) == part.sent


class Told:
    """Records of a topic and of an audit, as rows."""

    def __init__(self) -> None:
        self.sent: list[tuple[Any, ...]] = []
        self.audit: list[tuple[Any, ...]] = []

    def send(self, offset: int, sent_ms: int, **headers: str) -> None:
        from datetime import UTC, datetime

        named = [(f"longhall.{name.replace('_', '-')}", value.encode()) for name, value in headers.items()]
        self.sent.append((0, offset, datetime.fromtimestamp(sent_ms / 1000, UTC), b"k", b"v", named or None))

    def tell(self, kind: str, offset: int, time_ms: int, message_id: str | None = None, **more: Any) -> None:
        named = derive_message_id(7, offset) if message_id is None else message_id
        told = {"queue": "q", "lane": 7, "partition": 0, "sent_ms": 1000 if named else 0, **more}
        record = audit_record(Audited(kind=kind, offset=offset, time_ms=time_ms, message_id=named, **told))  # type: ignore[arg-type]
        self.audit.append((record.value,))

    def evidence(self, spark: SparkSession, state: list[tuple[str, int, int]] | None) -> InputRecords:
        there = None
        if state is not None:
            there = spark.createDataFrame(state, "message_id string, partition int, offset bigint")
        return InputRecords(
            spark.createDataFrame(self.sent, COLUMNS), spark.createDataFrame(self.audit, "value binary"), there
        )


def test_every_fate_and_every_gap(spark: SparkSession) -> None:
    told = Told()
    for offset in (0, 1, 2, 3, 6, 7, 8):
        told.send(offset, 1000)
    told.tell("purged", 2, 2000, "")  # 0 and 1 are gone by it, unless something else became of them.
    told.tell("settled", 1, 1500)
    told.tell("moved", 2, 2100, reason="redriven", target="x")
    told.tell("settled", 4, 2200)  # Freed: only the audit knows it. 5 is a gap.
    told.tell("delivered", 7, 2300, until_ms=9_000)
    told.tell("rewound", 6, 2400, "")
    told.tell("delivered", 7, 2500, until_ms=9_000)
    there = [("x", 0, 6), ("y", 0, 7)]
    balance = reconcile("q", told.evidence(spark, there), Period())
    assert balance.fates == {
        "settled": 2, "died": 0, "moved": 1, "open": 2, "purged": 1, "unknown": 0, "lost": 2,
    }  # fmt: skip
    assert [row["offset"] for row in balance.lost_messages] == [3, 8]
    assert balance.gap_ranges == [{"partition": 0, "first": 5, "last": 5}]
    assert [(row["offset"], row["after_rewind"]) for row in balance.twice_messages] == [(7, True)]
    assert not balance.is_complete(transactions=True)


def test_messages_with_priorities_are_followed_into_their_lanes(spark: SparkSession) -> None:
    told = Told()
    for offset in (0, 1, 2):
        told.send(offset, 1000, priority="2")
    told.tell("settled", 0, 1100, derive_message_id(7, 0), lane=9, partition=-2)
    told.tell("delivered", 1, 1100, derive_message_id(7, 2), lane=9, partition=-2)
    balance = reconcile("q", told.evidence(spark, [(derive_message_id(7, 2), -2, 1)]), Period())
    assert [row["offset"] for row in balance.lost_messages] == [1]
    assert (balance.sent, balance.fates["settled"], balance.fates["open"]) == (3, 1, 1)


def test_a_queue_without_an_audit_says_how_to_get_one(
    spark: SparkSession, bootstrap: str, make_topic: MakeTopic
) -> None:
    topic = make_topic()
    with pytest.raises(PipelineError, match=f"queue {topic} has no audit topic .*--audit deliveries"):
        read_live_input(spark, bootstrap, topic, Period(), None)

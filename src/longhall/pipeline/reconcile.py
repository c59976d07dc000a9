"""Reconciliation: sent against delivered against settled, for one queue and any period.

The proof is a sum: every message that was sent in the period has exactly one fate (`fates`), and no offset between two
of them is without one. Lost messages and messages that were delivered more than once are listed.

On a running hall the order of reading prevents false alarms: first the end of the topic, then the messages of the
queue, then the audit. A message before that end which the queue does not have any more left it earlier, so the audit
has its event.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from longhall.pipeline.audit_frames import audit_of, audit_topic, lanes_of, no_audit, sent_of
from longhall.pipeline.blocking_client import BlockingClient
from longhall.pipeline.fates import FATES, GRACE_MS, Period, fates, gaps, rewound, summarise_audit
from longhall.pipeline.options import Subscription
from longhall.pipeline.refusals import PipelineError
from longhall.pipeline.security_options import connection_options
from longhall.pipeline.subscription_metadata import SubscriptionMetadata

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

LISTED_MAX: Final = 100
AUDIT_SLACK_MS: Final = (
    24 * 3_600_000
)  # A producer's clock may be ahead: its message may be settled "before" it was sent.


_LOST_COLUMNS: Final = ("message_id", "partition", "offset", "sent_ms", "key", "deliveries", "last_delivered_ms")
_DELIVERY_COLUMNS: Final = ("deliveries", "first_delivered_ms", "last_delivered_ms", "settles")
_TWICE_COLUMNS: Final = ("message_id", "partition", "offset", *_DELIVERY_COLUMNS)


class InputRecords(NamedTuple):
    """The input of a reconciliation: records of two topics, and the queue's messages now if it was asked."""

    sent: DataFrame
    audit: DataFrame
    state: DataFrame | None = None
    audit_is_cut: bool = False


class Balance(NamedTuple):
    """The result for one queue. The lists are bounded; the numbers count everything."""

    queue: str
    fates: dict[str, int]
    sent: int
    delivered: int
    twice: int
    settled_twice: int
    after_settle: int
    gap_offsets: int
    lost_messages: list[dict[str, Any]]
    twice_messages: list[dict[str, Any]]
    gap_ranges: list[dict[str, Any]]

    @property
    def lost(self) -> int:
        return self.fates["lost"]

    def is_complete(self, transactions: bool = False) -> bool:
        """True if nothing was lost. With `transactions`, gaps of offsets are their markers and do not count."""
        return self.lost == 0 and (transactions or self.gap_offsets == 0)

    def facts(self) -> dict[str, object]:
        """The result for JSON output."""
        return {
            "queue": self.queue,
            "sent": self.sent,
            "delivered": self.delivered,
            **self.fates,
            "gap_offsets": self.gap_offsets,
            "delivered_twice": self.twice,
            "settled_twice": self.settled_twice,
            "delivered_after_settle": self.after_settle,
            "lost_messages": self.lost_messages,
            "delivered_twice_messages": self.twice_messages,
            "gaps": self.gap_ranges,
        }


def read_live_input(
    spark: SparkSession, bootstrap: str, queue: str, period: Period, state: DataFrame | None, topic: str = ""
) -> InputRecords:
    """Read a running hall. `state` is evaluated once, between the end of the topic and the audit."""
    topic = topic or queue
    with BlockingClient(bootstrap) as client:
        survey = SubscriptionMetadata(client, Subscription(names=(topic,)), read_committed=True)
        ends = survey.latest(survey.topics())
        audit = SubscriptionMetadata(client, Subscription(names=(audit_topic(queue),)))
        try:
            first = audit.earliest(audit.topics())
        except PipelineError as failure:
            raise (no_audit(queue) if "there is no topic" in str(failure) else failure) from None
    reader = spark.read.format("longhall").options(**connection_options(bootstrap)).option("includeHeaders", "true")
    reader = reader.option("kafka.isolation.level", "read_committed").option("failOnDataLoss", "false")
    sent = reader.option("subscribe", topic).option("endingOffsets", json.dumps(_named(ends)))
    if period.from_ms > 0:
        sent = sent.option("startingTimestamp", str(period.from_ms))
        sent = sent.option("startingOffsetsByTimestampStrategy", "latest")
    records = sent.load()
    if state is not None:
        state = state.select("message_id", "partition", "offset").localCheckpoint()
    told = spark.read.format("longhall").options(**connection_options(bootstrap)).option("failOnDataLoss", "false")
    told = told.option("subscribe", audit_topic(queue)).option("kafka.isolation.level", "read_committed")
    if period.from_ms > AUDIT_SLACK_MS:
        told = told.option("startingTimestamp", str(period.from_ms - AUDIT_SLACK_MS))
        told = told.option("startingOffsetsByTimestampStrategy", "latest")
    cut = any(offset > 0 for parts in first.values() for offset in parts.values())
    return InputRecords(records, told.load(), state, cut)


def reconcile(
    queue: str, evidence: InputRecords, period: Period, *, grace_ms: int = GRACE_MS, listed_max: int = LISTED_MAX
) -> Balance:
    """Compare the records of a queue."""
    audit = audit_of(evidence.audit).persist()
    sent = sent_of(evidence.sent, lanes_of(audit)).persist()
    try:
        return balance_of(queue, sent, audit, evidence, period, grace_ms=grace_ms, listed_max=listed_max)
    finally:
        sent.unpersist()
        audit.unpersist()


def balance_of(
    queue: str,
    sent: DataFrame,
    audit: DataFrame,
    evidence: InputRecords,
    period: Period,
    *,
    grace_ms: int = GRACE_MS,
    listed_max: int = LISTED_MAX,
) -> Balance:
    """As `reconcile`, for DataFrames that `audit_frames` has made already."""
    known = summarise_audit(sent, audit, evidence.audit_is_cut)
    rows = fates(sent, audit, known, evidence.state, grace_ms).persist()
    try:
        return _balance(queue, rows, period, rewound(known.rewinds), listed_max)
    finally:
        rows.unpersist()


def _balance(queue: str, rows: DataFrame, period: Period, after_rewind: Any, listed_max: int) -> Balance:
    from pyspark.sql import functions as f

    within = rows.where(period.holds("sent_ms"))
    late = f.col("last_delivered_ms") > f.col("first_settled_ms")
    sums = within.agg(
        f.count("*"),
        f.count_if(f.col("deliveries") > 0),
        f.count_if(f.col("deliveries") > 1),
        f.count_if(f.col("settles") > 1),
        f.count_if(f.coalesce(late, f.lit(False))),
        *(f.count_if(f.col("fate") == fate) for fate in FATES),
    ).first()
    assert sums is not None
    numbers = [int(number) for number in sums]
    lost = within.where("fate = 'lost'").orderBy("sent_ms", "partition", "offset")
    twice = within.where("deliveries > 1").orderBy("first_delivered_ms", "partition", "offset")
    twice = twice.withColumn("rewound", after_rewind).withColumn("late", f.coalesce(late, f.lit(False)))
    holes = gaps(rows, period)
    found = holes.orderBy("partition", "first").limit(listed_max + 1).collect()
    missing = sum(int(row["last"] - row["first"]) + 1 for row in found)
    if len(found) > listed_max:
        whole = holes.agg(f.sum(f.col("last") - f.col("first") + 1)).first()
        missing = int(whole[0]) if whole is not None else 0
    counted = dict(zip(FATES, numbers[5:], strict=True))
    return Balance(
        queue=queue,
        fates=counted,
        sent=numbers[0],
        delivered=numbers[1],
        twice=numbers[2],
        settled_twice=numbers[3],
        after_settle=numbers[4],
        gap_offsets=missing,
        lost_messages=[_lost(row) for row in _first(lost, counted["lost"], listed_max)],
        twice_messages=[_twice(row) for row in _first(twice, numbers[2], listed_max)],
        gap_ranges=[row.asDict() for row in found[:listed_max]],
    )


def _first(rows: DataFrame, there: int, listed_max: int) -> list[Row]:
    """The rows to list; an empty list costs no query."""
    return rows.limit(listed_max).collect() if there and listed_max else []


def _lost(row: Row) -> dict[str, Any]:
    return {name: row[name] for name in _LOST_COLUMNS}


def _twice(row: Row) -> dict[str, Any]:
    found = {name: row[name] for name in _TWICE_COLUMNS}
    return {**found, "after_settle": row["late"], "after_rewind": row["rewound"], "fate": row["fate"]}


def _named(offsets: dict[str, dict[int, int]]) -> dict[str, dict[str, int]]:
    return {topic: {str(part): offset for part, offset in parts.items()} for topic, parts in offsets.items()}

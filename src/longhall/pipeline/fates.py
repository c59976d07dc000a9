"""The fate of every message of a queue: one row a message, from the sent messages and the audit topic.

    fate      condition (the first that holds)
    settled   the audit has a settle of the message
    died      the audit has its death
    moved     an operator moved it away
    open      the queue has it now; if the queue was not asked: it is leased, or younger than the grace, when the
              records end
    purged    a purge of the queue passed its offset
    unknown   it was sent before the first record of an audit whose beginning is deleted
    lost      none of these

A message is one offset of the topic: one that died and came back counts twice. Messages that the queue has freed
already are known from the audit alone. The results are DataFrames; only purges and rewinds, which are few, are
collected.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Final, NamedTuple

from longhall.pipeline.refusals import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

FATES: Final = ("settled", "died", "moved", "open", "purged", "unknown", "lost")
SWEEPS_MAX: Final = 1000  # Purges and rewinds of a period, counted by lane.
GRACE_MS: Final = 15 * 60_000


class Period(NamedTuple):
    """The time in which messages were sent, in milliseconds; the end is excluded."""

    from_ms: int = 0
    until_ms: int = 1 << 62

    def holds(self, column: str) -> Column:
        from pyspark.sql import functions as f

        return (f.col(column) >= self.from_ms) & (f.col(column) < self.until_ms)


class QueueCut(NamedTuple):
    """A purge or a rewind of one lane: what stands before, or from, `offset`."""

    partition: int
    offset: int
    time_ms: int


class AuditSummary(NamedTuple):
    """The facts about an audit topic that the fate of every message depends on."""

    audit_first_ms: int  # When the audit begins; 0 if nothing of it is gone.
    end_ms: int  # When the records end.
    purges: tuple[QueueCut, ...]
    rewinds: tuple[QueueCut, ...]
    has_lanes: bool  # Whether there are lanes of priority.


def summarise_audit(sent: DataFrame, audit: DataFrame, audit_is_cut: bool) -> AuditSummary:
    """Collect the summary. `audit_is_cut` says that the first records of the audit topic are deleted."""
    from pyspark.sql import functions as f

    bounds = audit.agg(f.min("time_ms"), f.max("time_ms"), f.min("partition")).first()
    last_sent = sent.agg(f.max("sent_ms")).first()
    assert bounds is not None
    assert last_sent is not None
    swept = audit.where(f.col("kind").isin("purged", "rewound")).select("kind", "partition", "offset", "time_ms")
    rows = swept.limit(SWEEPS_MAX + 1).collect()
    if len(rows) > SWEEPS_MAX:
        raise PipelineError(f"there are more than {SWEEPS_MAX} purges and rewinds in the audit; choose a later period")
    return AuditSummary(
        audit_first_ms=int(bounds[0] or 0) if audit_is_cut else 0,
        end_ms=max(int(bounds[1] or 0), int(last_sent[0] or 0)),
        purges=tuple(QueueCut(int(row[1]), int(row[2]), int(row[3])) for row in rows if row[0] == "purged"),
        rewinds=tuple(QueueCut(int(row[1]), int(row[2]), int(row[3])) for row in rows if row[0] == "rewound"),
        has_lanes=int(bounds[2] or 0) < 0,
    )


def fates(
    sent: DataFrame, audit: DataFrame, known: AuditSummary, state: DataFrame | None = None, grace_ms: int = GRACE_MS
) -> DataFrame:
    """All messages of both DataFrames, each with its fate. `state` is the table `messages` of the queue."""
    from pyspark.sql import functions as f

    events = _events(audit)
    rows = sent.join(events.where("partition >= 0").drop("event_id"), ["partition", "offset"], "full_outer")
    if known.has_lanes:
        rows = _with_lanes(rows, events)
    rows = rows.select(
        "partition",
        "offset",
        f.coalesce("message_id", "last_id").alias("message_id"),
        f.coalesce("sent_ms", "told_ms").alias("sent_ms"),
        "key",
        *(f.coalesce(name, f.lit(0)).alias(name) for name in ("deliveries", "settles", "deaths", "moves")),
        *_AS_THEY_ARE,
    )
    rows = _with_state(rows, state)
    return rows.withColumn("fate", _fate(known, state is not None, grace_ms))


_AS_THEY_ARE: Final = (
    "first_delivered_ms",
    "last_delivered_ms",
    "first_settled_ms",
    "held_until_ms",
    "reason",
    "attempts",
)


def _events(audit: DataFrame) -> DataFrame:
    """The events of the audit, grouped by message."""
    from pyspark.sql import functions as f

    def times(kind: str) -> Column:
        return f.when(f.col("kind") == kind, f.col("time_ms"))

    told = audit.where("message_id is not null and message_id != ''")
    # A message in a lane of priority is known by its id: its place there is not its place in the topic.
    name = f.when(f.col("partition") < 0, f.col("message_id"))
    return told.withColumn("event_id", name).groupBy("partition", "offset", "event_id").agg(
        f.max("message_id").alias("last_id"),
        f.min(f.when(f.col("sent_ms") > 0, f.col("sent_ms"))).alias("told_ms"),
        f.count(times("delivered")).alias("deliveries"),
        f.min(times("delivered")).alias("first_delivered_ms"),
        f.max(times("delivered")).alias("last_delivered_ms"),
        f.count(times("settled")).alias("settles"),
        f.min(times("settled")).alias("first_settled_ms"),
        f.count(times("died")).alias("deaths"),
        f.count(times("moved")).alias("moves"),
        f.max(f.when(f.col("kind") == "died", f.col("reason"))).alias("reason"),
        f.max("until_ms").alias("held_until_ms"),
        f.max("attempt").alias("attempts"),
    )  # fmt: skip


def _with_lanes(rows: DataFrame, events: DataFrame) -> DataFrame:
    """Join deliveries from priority lanes with the originals in the topic; a delivery without an original is a row of
    its own.
    """
    from pyspark.sql import functions as f

    of_lanes = events.where("partition < 0").withColumnsRenamed(
        {"partition": "lane_partition", "offset": "lane_offset"}
    )
    original = f.when(f.col("priority") > 0, f.col("message_id"))
    names = ("last_id", "told_ms", "deliveries", "settles", "deaths", "moves", *_AS_THEY_ARE)
    left = rows.withColumn("original_id", original)
    right = of_lanes.withColumnsRenamed({name: f"lane_{name}" for name in names})
    joined = left.join(right, left["original_id"] == right["event_id"], "full_outer")
    return joined.select(
        f.coalesce("partition", "lane_partition").alias("partition"),
        f.coalesce("offset", "lane_offset").alias("offset"),
        "message_id",
        "sent_ms",
        "key",
        *(f.coalesce(name, f"lane_{name}").alias(name) for name in names),
    )


def _with_state(rows: DataFrame, state: DataFrame | None) -> DataFrame:
    """Mark the messages that the queue has now."""
    from pyspark.sql import functions as f

    if state is None:
        return rows.withColumn("there", f.lit(False))
    placed = state.where("partition >= 0 and offset is not null").select("partition", "offset", f.lit(True).alias("at"))
    by_id = state.where("partition < 0").select("message_id", f.lit(True).alias("in_lane")).distinct()
    rows = rows.join(placed.distinct(), ["partition", "offset"], "left").join(by_id, ["message_id"], "left")
    there = f.coalesce(f.col("at"), f.col("in_lane"), f.lit(False))
    return rows.withColumn("there", there).drop("at", "in_lane")


def _fate(known: AuditSummary, looked: bool, grace_ms: int) -> Column:
    from pyspark.sql import functions as f

    col = f.col
    is_open = col("there")
    if not looked:
        held = f.coalesce(col("held_until_ms") > known.end_ms, f.lit(False))
        is_open = held | (col("sent_ms") > known.end_ms - grace_ms)
    return (
        f.when(col("settles") > 0, "settled")
        .when(col("deaths") > 0, "died")
        .when(col("moves") > 0, "moved")
        .when(is_open, "open")
        .when(swept(known.purges), "purged")
        .when(col("sent_ms") < known.audit_first_ms, "unknown")
        .otherwise("lost")
    )


def swept(purges: tuple[QueueCut, ...]) -> Column:
    """True if a purge passed a message that was in the queue at that time."""
    from pyspark.sql import functions as f

    each = [
        (f.col("partition") == sweep.partition) & (f.col("offset") < sweep.offset) & (f.col("sent_ms") <= sweep.time_ms)
        for sweep in purges
    ]
    return reduce(lambda one, other: one | other, each, f.lit(False))


def rewound(rewinds: tuple[QueueCut, ...]) -> Column:
    """True if a rewind lies between the first and the last delivery of a message."""
    from pyspark.sql import functions as f

    each = [
        (f.col("partition") == sweep.partition)
        & (f.col("offset") >= sweep.offset)
        & f.lit(sweep.time_ms).between(f.col("first_delivered_ms"), f.col("last_delivered_ms"))
        for sweep in rewinds
    ]
    return reduce(lambda one, other: one | other, each, f.lit(False))


def gaps(rows: DataFrame, period: Period) -> DataFrame:
    """Offsets between two messages of a period that have neither a message nor an event: `partition`, `first`, `last`.

    Offsets are assigned without gaps, so each of these was an acknowledged message or the marker of a transaction.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    order = Window.partitionBy("partition").orderBy("offset")
    places = rows.where("partition >= 0").select("partition", "offset", period.holds("sent_ms").alias("within"))
    pairs = places.select(
        "partition",
        (f.lag("offset").over(order) + 1).alias("first"),
        (f.col("offset") - 1).alias("last"),
        (f.col("within") & f.lag("within").over(order)).alias("within"),
    )
    return pairs.where("within and first <= last").drop("within")

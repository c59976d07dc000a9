"""The measurements of a report, on Spark: plain values, one list a measure, one entry for each step of the period.

Sent messages come from the topic, and from the audit where the queue has freed them already; everything else comes from
the audit. A topic that is not a queue has the first half only. Nothing is drawn here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from longhall.pipeline.audit_frames import audit_of, lanes_of, sent_of
from longhall.pipeline.fates import GRACE_MS, Period
from longhall.pipeline.reconcile import InputRecords, balance_of
from longhall.pipeline.report.forecast import look_ahead
from longhall.pipeline.report.svg import STEPS_MS

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

STEPS_MAX: Final = 96
KEYS_LISTED: Final = 10
HOT_SHARE: Final = 0.05  # A key is hot that has so much of all messages,
HOT_TIMES: Final = 10.0  # and so many times what an average key has.
SKEWED_TIMES: Final = 1.5  # A partition is too full that has so many times the average.
QUANTILES: Final = (0.5, 0.9, 0.99)
LISTED: Final = 20


def step_of(period: Period) -> int:
    """A round step that divides a period into at most `STEPS_MAX`."""
    span = period.until_ms - period.from_ms
    week = STEPS_MS[-1]
    return next((step for step in STEPS_MS if span <= step * STEPS_MAX), -(-span // (week * STEPS_MAX)) * week)


def measure(
    name: str,
    evidence: InputRecords,
    period: Period,
    *,
    is_queue: bool,
    disk_free_bytes: int = 0,
    grace_ms: int = GRACE_MS,
) -> dict[str, Any]:
    """All measurements of one queue or topic."""
    steps = _Steps(period)
    audit = audit_of(evidence.audit).persist() if is_queue else None
    there = sent_of(evidence.sent, lanes_of(audit) if audit is not None else None).persist()
    sent = (there if audit is None else _with_freed(there, audit)).where(period.holds("sent_ms")).persist()
    facts: dict[str, Any] = {"name": name, "is_queue": is_queue, "begin_ms": steps.begin_ms, "step_ms": steps.step_ms}
    try:
        facts |= _volumes(sent, steps)
        facts |= _keys(sent, facts["messages"])
        facts["partitions"] = _partitions(sent, facts["messages"])
        if audit is not None:
            facts |= _events(audit.where(period.holds("time_ms")), steps, facts["sent"])
            balance = balance_of(name, there, audit, evidence, period, grace_ms=grace_ms, listed_max=LISTED)
            facts["balance"] = balance.facts()
    finally:
        for frame in (sent, there, audit):
            if frame is not None:
                frame.unpersist()
    ahead = look_ahead(steps.begin_ms, steps.step_ms, facts["sent"], facts["bytes"], disk_free_bytes)
    facts["forecast"] = ahead._asdict()
    return facts


class _Steps:
    """The steps of a period, from a round time on."""

    def __init__(self, period: Period) -> None:
        self.step_ms = step_of(period)
        self.begin_ms = period.from_ms // self.step_ms * self.step_ms
        self.count = -(-(period.until_ms - self.begin_ms) // self.step_ms)

    def of(self, column: str) -> Column:
        from pyspark.sql import functions as f

        return f.floor((f.col(column) - self.begin_ms) / self.step_ms).cast("int").alias("step")

    def row(self, counted: Mapping[int, float]) -> list[float]:
        return [counted.get(at, 0) for at in range(self.count)]


def _with_freed(sent: DataFrame, audit: DataFrame) -> DataFrame:
    """Add the messages that only the audit has."""
    from pyspark.sql import functions as f

    told = audit.where("message_id != '' and sent_ms > 0").groupBy("message_id").agg(
        f.max("partition").alias("partition"),
        f.max("offset").alias("offset"),
        f.min("sent_ms").alias("sent_ms"),
        f.lit(0).alias("priority"),
        f.nullif(f.max("group"), f.lit("")).alias("key"),
        f.max("size_bytes").alias("size_bytes"),
    )  # fmt: skip
    freed = told.join(sent.select("message_id").where("message_id is not null"), ["message_id"], "left_anti")
    return sent.unionByName(freed.select(*sent.columns))


def _volumes(sent: DataFrame, steps: _Steps) -> dict[str, Any]:
    from pyspark.sql import functions as f

    rows = sent.groupBy(steps.of("sent_ms")).agg(f.count("*"), f.sum("size_bytes")).collect()
    counted = {int(row[0]): int(row[1]) for row in rows}
    sizes = {int(row[0]): int(row[2] or 0) for row in rows}
    return {
        "messages": sum(counted.values()),
        "size_bytes": sum(sizes.values()),
        "sent": steps.row(counted),
        "bytes": steps.row(sizes),
    }


def _keys(sent: DataFrame, messages: int) -> dict[str, Any]:
    """The keys with the most messages, and which of them are hot."""
    from pyspark.sql import functions as f

    counted = sent.where("key is not null").groupBy("key").agg(f.count("*").alias("messages")).persist()
    sums = counted.agg(f.count("*"), f.sum("messages")).first()
    assert sums is not None
    distinct, keyed = int(sums[0]), int(sums[1] or 0)
    top = counted.orderBy(f.desc("messages"), "key").limit(KEYS_LISTED).collect()
    counted.unpersist()
    average = keyed / distinct if distinct else 0.0
    return {
        "distinct_keys": distinct,
        "keys": [
            {
                "key": row[0],
                "messages": int(row[1]),
                "share": int(row[1]) / messages,
                "hot": int(row[1]) >= HOT_SHARE * messages and int(row[1]) >= HOT_TIMES * average,
            }
            for row in top
        ],
    }


def _partitions(sent: DataFrame, messages: int) -> list[dict[str, Any]]:
    from pyspark.sql import functions as f

    rows = sent.where("partition >= 0").groupBy("partition").agg(f.count("*"), f.sum("size_bytes"))
    found = [(int(row[0]), int(row[1]), int(row[2] or 0)) for row in rows.orderBy("partition").collect()]
    average = messages / len(found) if found else 0.0
    return [
        {
            "partition": partition,
            "messages": count,
            "bytes": size,
            "skewed": len(found) > 1 and count >= SKEWED_TIMES * average,
        }
        for partition, count, size in found
    ]


def _events(audit: DataFrame, steps: _Steps, sent: list[float]) -> dict[str, Any]:
    from pyspark.sql import functions as f

    rows = audit.groupBy(steps.of("time_ms"), "kind", "reason").agg(f.count("*")).collect()
    of_kind: dict[str, dict[int, float]] = {}
    of_reason: dict[str, dict[int, float]] = {}
    for step, kind, reason, count in rows:
        counted = of_kind.setdefault(kind, {})
        counted[int(step)] = counted.get(int(step), 0) + count
        if kind == "died":
            of_reason.setdefault(reason or "unknown", {})[int(step)] = count
    kinds = {kind: steps.row(of_kind.get(kind, {})) for kind in ("delivered", "settled", "returned", "died", "moved")}
    gone = audit.where("kind = 'settled' or kind = 'died'").groupBy("attempt").agg(f.count("*")).collect()
    return {
        **kinds,
        "dead_by_reason": {reason: sum(counted.values()) for reason, counted in sorted(of_reason.items())},
        "dead_over_time": {reason: steps.row(counted) for reason, counted in sorted(of_reason.items())},
        "attempts": {str(attempt): int(count) for attempt, count in sorted((row[0], row[1]) for row in gone)},
        "backlog": _backlog(sent, kinds),
        **_latency(audit, steps),
    }


def _backlog(sent: list[float], kinds: Mapping[str, list[float]]) -> list[float]:
    """A lower bound of what waits at the end of each step: the backlog before the period is unknown."""
    level, levels = 0.0, []
    for at, count in enumerate(sent):
        level += count - kinds["settled"][at] - kinds["died"][at] - kinds["moved"][at]
        levels.append(level)
    floor = min(0.0, *levels) if levels else 0.0
    return [each - floor for each in levels]


def _latency(audit: DataFrame, steps: _Steps) -> dict[str, Any]:
    """The time from send to settle, by the time of the settle."""
    from pyspark.sql import functions as f

    settled = audit.where("kind = 'settled' and sent_ms > 0").select(
        steps.of("time_ms"), f.greatest(f.col("time_ms") - f.col("sent_ms"), f.lit(0)).alias("took_ms")
    )
    quantiles = f.percentile_approx("took_ms", list(QUANTILES), 10_000)
    rows = settled.rollup("step").agg(quantiles, f.max("took_ms")).collect()
    by_step = {None if row[0] is None else int(row[0]): row for row in rows}
    whole = by_step.pop(None, None)
    names = [f"p{round(100 * each)}" for each in QUANTILES]
    return {
        "latency_ms": {
            name: [by_step[at][1][number] if at in by_step else None for at in range(steps.count)]
            for number, name in enumerate(names)
        },
        "latency_whole_ms": {}
        if whole is None or whole[1] is None
        else {**dict(zip(names, whole[1], strict=True)), "max": whole[2]},
    }

"""Who did what: the records of the audit topic, summed up by user, action and resource.

A record that was written twice has the same id, and counts once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from longhall.pipeline.fates import Period

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SCHEMA: Final = (
    "id string, time_ms bigint, event string, allowed boolean, tenant string, user string, address string, "
    "door string, action string, resource_kind string, resource string, count bigint"
)
ADDRESSES_MAX: Final = 5  # That a row names.


class AccessFilter(NamedTuple):
    """The selection of records; empty fields select all."""

    user: str = ""
    action: str = ""
    resource: str = ""
    event: str = ""
    refused: bool = False


def access_rows(records: DataFrame, period: Period, wanted: AccessFilter, listed_max: int) -> list[dict[str, Any]]:
    """The most frequent combinations first, at most `listed_max`."""
    from pyspark.sql import functions as f

    told = records.select(f.from_json(f.col("value").cast("string"), SCHEMA).alias("told")).select("told.*")
    found = told.where("id is not null").dropDuplicates(["id"]).where(period.holds("time_ms"))
    found = found.withColumn("allowed", f.coalesce("allowed", f.lit(True)))
    for name in ("user", "action", "resource", "event"):
        value = getattr(wanted, name)
        if value:
            found = found.where(f.col(name) == value)
    if wanted.refused:
        found = found.where(~f.col("allowed"))
    names = ("tenant", "user", "event", "action", "resource_kind", "resource", "door")
    plain = [f.coalesce(f.col(name), f.lit("")).alias(name) for name in names]
    rows = found.select(*plain, "allowed", "time_ms", f.coalesce("count", f.lit(1)).alias("count"), "address")
    summed = rows.groupBy(*names, "allowed").agg(
        f.sum("count").alias("count"),
        f.min("time_ms").alias("first_ms"),
        f.max("time_ms").alias("last_ms"),
        f.sort_array(f.collect_set("address")).alias("addresses"),
    )
    ordered = summed.orderBy(f.desc("count"), *names, "allowed").limit(listed_max)
    return [{**row.asDict(), "addresses": row["addresses"][:ADDRESSES_MAX]} for row in ordered.collect()]

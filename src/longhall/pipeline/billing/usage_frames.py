"""DataFrames of usage: the records of the usage topic as rows, and sums of rows by windows with FOCUS columns.

A row is one meter of one record. Quantities are whole numbers, so that sums are exact. A use belongs to the window in
which its record begins, in UTC. This module does not know which records are late: `usage_tables` does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

# One record, as `docs/usage.md` has it; fields that are not known here are passed over.
SCHEMA: Final = (
    "id string, start_ms bigint, end_ms bigint, tenant string, user string, door string, resource string, "
    "usage map<string,bigint>"
)
QUANTITY: Final = "decimal(38,0)"
WINDOWS: Final = ("minute", "hour", "month")
DIMENSIONS: Final = ("tenant", "user", "door", "resource", "meter")
UNITS: Final = {
    "messages": "Messages",
    "bytes": "Bytes",
    "requests": "Requests",
    "connection": "Connection-Seconds",
    "storage": "Byte-Seconds",
}  # By the first word of a meter.
SERVICE: Final = "Longhall"
CORRECTION: Final = "Correction"


def rows_of(records: DataFrame) -> DataFrame:
    """The records of the usage topic as rows, repeated ones included."""
    from pyspark.sql import functions as f

    told = records.select("offset", f.from_json(f.col("value").cast("string"), SCHEMA).alias("told"))
    known = told.where("told.id is not null and told.start_ms is not null").select("offset", "told.*")
    empty = f.lit("")
    return known.select(
        "offset",
        "id",
        "start_ms",
        "end_ms",
        *(f.coalesce(f.col(name), empty).alias(name) for name in DIMENSIONS[:-1]),
        f.explode("usage").alias("meter", "quantity"),
    ).withColumn("quantity", f.col("quantity").cast(QUANTITY))


def once(rows: DataFrame) -> DataFrame:
    """The rows without repetitions: a record is known by its id."""
    return rows.dropDuplicates(["id", "meter"])


def windowed(rows: DataFrame, window: str, closed_ms: int) -> DataFrame:
    """The sums of rows by window. A window that ended before `closed_ms` is in an earlier run: the sums correct it."""
    from pyspark.sql import functions as f

    start = window_start(window)
    sums = rows.select(start.alias("start"), *DIMENSIONS, "quantity").groupBy("start", *DIMENSIONS)
    found = sums.agg(f.sum("quantity").cast(QUANTITY).alias("quantity"))
    end = f.col("start") + f.expr(f"interval 1 {window}")
    late = end <= f.timestamp_millis(f.lit(closed_ms))
    return found.select(*focus(start_of(), end, late))


def window_start(window: str) -> Column:
    """The beginning of the window of a row."""
    from pyspark.sql import functions as f

    return f.date_trunc(window, f.timestamp_millis("start_ms"))


def start_of() -> Column:
    """The column with the beginning of a window."""
    from pyspark.sql import functions as f

    return f.col("start")


def focus(start: Column, end: Column, late: Column) -> list[Column]:
    """The columns of FOCUS that are known without prices."""
    from pyspark.sql import functions as f

    month = f.date_trunc("month", start)
    word = f.split("meter", "[._]")[0]
    unit = f.coalesce(*(f.when(word == name, f.lit(unit)) for name, unit in UNITS.items()), f.lit("Units"))
    return [
        f.col("tenant").alias("BillingAccountId"),
        f.col("tenant").alias("BillingAccountName"),
        month.alias("BillingPeriodStart"),
        (month + f.expr("interval 1 month")).alias("BillingPeriodEnd"),
        start.alias("ChargePeriodStart"),
        end.alias("ChargePeriodEnd"),
        f.lit("Usage").alias("ChargeCategory"),
        f.when(late, f.lit(CORRECTION)).alias("ChargeClass"),
        f.col("meter").alias("SkuMeter"),
        f.col("quantity").alias("ConsumedQuantity"),
        unit.alias("ConsumedUnit"),
        f.col("resource").alias("ResourceId"),
        f.lit("Integration").alias("ServiceCategory"),
        f.lit("Messaging").alias("ServiceSubcategory"),
        f.lit(SERVICE).alias("ServiceName"),
        f.create_map(f.lit("user"), f.col("user"), f.lit("door"), f.col("door")).alias("Tags"),
    ]

"""DataFrames of sent messages and of audit events: a queue's topic and its audit topic, live or archived.

Both kinds of records arrive with the columns of the data source (`key`, `value`, `headers`, ...) and leave with columns
of queues. A message is identified by partition and offset, or by its id where it has none (a copy in a priority lane,
whose partition is negative).

The module makes no judgement: `fates` decides what was lost, and `measures` what is hot.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from longhall.pipeline.refusals import PipelineError
from longhall.pipeline.security_options import connection_options

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

SUFFIX: Final = ".deliveries"
NEEDS_SWITCH: Final = "`longhall queue alter {queue} --audit deliveries` switches it on, for what happens from then on"

# One record, as `docs/semantics.md` has it; fields that are not known here are passed over.
FIELDS: Final = {
    "kind": "string",
    "queue": "string",
    "time_ms": "bigint",
    "message_id": "string",
    "lane": "bigint",
    "partition": "int",
    "offset": "bigint",
    "attempt": "int",
    "reason": "string",
    "consumer": "string",
    "sent_ms": "bigint",
    "size_bytes": "bigint",
    "group": "string",
    "until_ms": "bigint",
    "target": "string",
}
LEFT: Final = ("settled", "died", "moved")  # Ways in which one message leaves a queue.


def audit_of(records: DataFrame) -> DataFrame:
    """The records of an audit topic as events; `time` and `sent` are timestamps beside the milliseconds."""
    from pyspark.sql import functions as f

    schema = ", ".join(f"`{name}` {kind}" for name, kind in FIELDS.items())
    told = records.select(f.from_json(f.col("value").cast("string"), schema).alias("told"))
    return told.select("told.*").select(
        "*",
        f.timestamp_millis("time_ms").alias("time"),
        f.when(f.col("sent_ms") > 0, f.timestamp_millis("sent_ms")).alias("sent"),
    )


def deliveries_of(audit: DataFrame) -> DataFrame:
    """Every delivery of a message."""
    from pyspark.sql import functions as f

    return audit.where("kind = 'delivered'").select(
        "message_id", "partition", "offset", "attempt", "time", "sent", f.timestamp_millis("until_ms").alias("until"),
        "consumer", "group", "size_bytes",
    )  # fmt: skip


def settlements_of(audit: DataFrame) -> DataFrame:
    """Every event by which a message left the queue: settled, died (`reason`, `target`) or moved."""
    from pyspark.sql import functions as f

    return audit.where(f.col("kind").isin(*LEFT)).select(
        "message_id", "partition", "offset", "kind", "reason", "target", "attempt", "time", "sent", "consumer",
        "group", "size_bytes",
    )  # fmt: skip


def sent_of(records: DataFrame, lanes: Mapping[int, int] | None = None) -> DataFrame:
    """The records of a queue's topic as messages. `lanes` (partition to lane) derives the ids that are missing."""
    from pyspark.sql import functions as f

    stamp = f.unix_millis("timestamp")
    brought = _header("longhall.id")
    return records.select(
        "partition",
        "offset",
        f.coalesce(_header("longhall.sent-ms").cast("bigint"), stamp).alias("sent_ms"),
        f.coalesce(brought, _derived_id(lanes or {})).alias("message_id"),
        f.coalesce(_header("longhall.priority").cast("int"), f.lit(0)).alias("priority"),
        f.coalesce(_header("longhall.group"), f.col("key").cast("string")).alias("key"),
        (f.coalesce(f.length("value"), f.lit(0)) + f.coalesce(f.length("key"), f.lit(0))).cast("bigint").alias(
            "size_bytes"
        ),
    )  # fmt: skip


def lanes_of(audit: DataFrame) -> dict[int, int]:
    """The lane of every partition in the audit."""
    from pyspark.sql import functions as f

    rows = audit.where("partition >= 0 and lane is not null").groupBy("partition").agg({"lane": "max"}).collect()
    lanes = {int(row[0]): int(row[1]) for row in rows}
    if not lanes:
        # All was given out of lanes of priority, and such a queue has one partition: the oldest log that ids tell of.
        digits = f.concat(f.substring("message_id", 1, 8), f.substring("message_id", 10, 4))
        told = audit.where(r"partition < 0 and message_id rlike '^[0-9a-f]{8}-[0-9a-f]{4}-8'").select(
            f.min(f.conv(f.concat(digits, f.substring("message_id", 16, 3)), 16, 10).cast("bigint"))
        )
        first = told.first()
        if first is not None and first[0] is not None:
            lanes[0] = int(first[0])
    return lanes


def _header(name: str) -> Column:
    """The last header of a name, as text; null if there is none."""
    from pyspark.sql import functions as f

    chosen = f.filter(f.col("headers"), lambda header: header["key"] == name)
    return f.try_element_at(chosen, f.lit(-1))["value"].cast("string")


def id_prefix(lane: int) -> str:
    """The first half of the ids that are derived from offsets of a lane; see `queues.envelope.derive_message_id`."""
    digits = ((lane >> 12 << 16) | (8 << 12) | (lane & 0xFFF)).to_bytes(8, "big").hex()
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:]}"


def _derived_id(lanes: Mapping[int, int]) -> Column:
    from pyspark.sql import functions as f

    prefix = f.lit(None).cast("string")
    for partition, lane in lanes.items():
        prefix = f.when(f.col("partition") == partition, f.lit(id_prefix(lane))).otherwise(prefix)
    digits = f.lower(f.lpad(f.hex("offset"), 15, "0"))
    return f.concat(prefix, f.lit("-8"), f.substring(digits, 1, 3), f.lit("-"), f.substring(digits, 4, 12))


def read_live(spark: SparkSession, bootstrap: str, topic: str, from_ms: int = 0) -> DataFrame:
    """The committed records of a topic that are not older than a time, with headers."""
    reader = spark.read.format("longhall").options(**connection_options(bootstrap)).option("subscribe", topic)
    reader = reader.option("includeHeaders", "true").option("kafka.isolation.level", "read_committed")
    reader = reader.option("failOnDataLoss", "false")
    if from_ms > 0:
        reader = reader.option("startingTimestamp", str(from_ms))
        reader = reader.option("startingOffsetsByTimestampStrategy", "latest")
    return reader.load()


def audit_topic(queue: str) -> str:
    return queue + SUFFIX


def no_audit(queue: str) -> PipelineError:
    return PipelineError(f"queue {queue} has no audit topic {audit_topic(queue)}; {NEEDS_SWITCH.format(queue=queue)}")

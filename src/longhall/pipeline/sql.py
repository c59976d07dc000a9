"""Continuous SQL: topics in, a topic out. `select ... from orders where ...` becomes a stream that Spark keeps running.

A name in the query that Spark does not know is a topic. Its view has the fields of its JSON values as columns, by a
given schema or by one inferred from the latest messages, and the columns of every message: `_key`, `_timestamp`,
`_topic`, `_partition`, `_offset`, `_value`. A value that is not JSON has nulls in its fields. In the result a column
`_key` is the key, and the others are the value, as one JSON object.

Checkpoint and sink make it exactly once: a batch that a checkpoint has begun is finished under the same names after a
crash.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from longhall.pipeline.blocking_client import BlockingClient
from longhall.pipeline.options import Subscription
from longhall.pipeline.refusals import PipelineError
from longhall.pipeline.security_options import connection_options
from longhall.pipeline.spark import register
from longhall.pipeline.subscription_metadata import SubscriptionMetadata

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

SAMPLE: Final = 1000  # Messages of each partition that a schema is inferred from, the latest ones.
TOPICS_MAX: Final = 32
MODES: Final = ("append", "update", "complete")
KEY: Final = "_key"
STAMP: Final = "_timestamp"

_NOT_FOUND: Final = "TABLE_OR_VIEW_NOT_FOUND"


class Watermark(NamedTuple):
    """How late a message may be, by a time column of one topic or of all topics that have the column."""

    topic: str
    column: str
    delay: str


class SqlOptions(NamedTuple):
    """The query, its target and its settings."""

    query: str
    to: str
    bootstrap: str
    checkpoint: str = ""
    schemas: Mapping[str, str] = {}
    watermarks: tuple[Watermark, ...] = ()
    mode: str = "append"
    starting: str = "earliest"
    once: bool = False

    def place(self) -> str:
        """The directory of the checkpoint: the given one, or one below the home directory for this query."""
        if self.checkpoint:
            return self.checkpoint
        base = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
        name = hashlib.sha256(f"{self.bootstrap}\0{self.query}\0{self.to}".encode()).hexdigest()[:16]
        return str(base / "longhall" / "sql" / f"{self.to}-{name}")


def parse_watermark(words: str) -> Watermark:
    """`10 minutes`, `COLUMN=10 minutes` or `TOPIC.COLUMN=10 minutes`. Raises PipelineError."""
    place, sign, delay = words.rpartition("=")
    topic, _, column = place.rpartition(".")
    if not delay.strip() or (sign and not column):
        raise PipelineError(f"the watermark {words!r} must be DELAY, COLUMN=DELAY or TOPIC.COLUMN=DELAY")
    return Watermark(topic, column or STAMP, delay.strip())


def parse_schemas(given: list[str]) -> dict[str, str]:
    """`TOPIC=id bigint, amount double`, each. Raises PipelineError."""
    schemas = {}
    for each in given:
        topic, sign, columns = each.partition("=")
        if not sign or not topic.strip() or not columns.strip():
            raise PipelineError(f"the schema {each!r} must be TOPIC=COLUMN TYPE, COLUMN TYPE")
        schemas[topic.strip()] = columns.strip()
    return schemas


def start(spark: SparkSession, options: SqlOptions, say: Callable[[str], None] = lambda words: None) -> StreamingQuery:
    """Start the query. With `once` it ends when everything that exists now has been processed."""
    if options.mode not in MODES:
        raise PipelineError(f"the mode {options.mode!r} is none of {', '.join(MODES)}")
    register(spark)
    made: set[str] = set()
    try:
        with BlockingClient(options.bootstrap) as client:
            SubscriptionMetadata(
                client, Subscription(names=(options.to,))
            ).topics()  # A missing target is reported at once.
            result = _resolve(spark, options, client, say, made)
        if options.to in made:
            raise PipelineError(f"{options.to} is read by the query itself; choose another topic to write to")
        place = options.place()
        say(f"checkpoint in {place}")
        writer = _outgoing(result).writeStream.format("longhall").outputMode(options.mode)
        writer = writer.options(**connection_options(options.bootstrap)).option("topic", options.to)
        writer = writer.option("checkpointLocation", place)
        return (writer.trigger(availableNow=True) if options.once else writer).start()
    finally:
        for topic in made:  # The query has its plan; views of topics would be in the way of others.
            spark.catalog.dropTempView(topic)


def _quoted(topic: str) -> str:
    return "`" + topic.replace("`", "``") + "`"


def _resolve(
    spark: SparkSession, options: SqlOptions, client: BlockingClient, say: Callable[[str], None], made: set[str]
) -> DataFrame:
    """Parse the query; for every name that Spark does not know, create the view of a topic and parse again."""
    from pyspark.errors import AnalysisException, ParseException

    _hush()
    while len(made) <= TOPICS_MAX:
        try:
            result = spark.sql(options.query)
            _ = result.schema
            return result
        except ParseException as failure:
            raise PipelineError(f"the query is not understood: {_first_line(failure)}") from None
        except AnalysisException as failure:
            topic = _missing(failure)
            if topic is None or topic in made:
                raise PipelineError(f"the query is not understood: {_first_line(failure)}") from None
        _view(spark, options, topic, client, say)
        made.add(topic)
    raise PipelineError(f"the query names more than {TOPICS_MAX} topics")


def _hush() -> None:
    """Silence PySpark, which prints every query that it cannot resolve: unresolved names are topics here."""
    logging.getLogger("SQLQueryContextLogger").disabled = True


def _missing(failure: Any) -> str | None:
    """The name that Spark does not know, if that is the failure."""
    if failure.getCondition() != _NOT_FOUND:
        return None
    name = str((failure.getMessageParameters() or {}).get("relationName", ""))
    parts = [part.replace("``", "`") for part in re.findall(r"`((?:[^`]|``)*)`", name)]
    return ".".join(parts) or None


def _view(
    spark: SparkSession, options: SqlOptions, topic: str, client: BlockingClient, say: Callable[[str], None]
) -> None:
    survey = SubscriptionMetadata(client, Subscription(names=(topic,)))
    found = survey.topics()
    schema = options.schemas.get(topic)
    if schema is None:
        schema = infer(spark, options.bootstrap, topic, survey.earliest(found)[topic], survey.latest(found)[topic])
        say(f"{topic}: {schema}")
    stream = spark.readStream.format("longhall").options(**connection_options(options.bootstrap))
    stream = stream.option("subscribe", topic).option("startingOffsets", options.starting)
    stream = stream.option("kafka.isolation.level", "read_committed")
    rows = columns_of(stream.load(), schema, topic)
    for mark in options.watermarks:
        if mark.topic in ("", topic) and (mark.topic or mark.column in rows.columns):
            rows = _marked(rows, mark, topic)
    rows.createOrReplaceTempView(_quoted(topic))


def infer(spark: SparkSession, bootstrap: str, topic: str, first: Mapping[int, int], last: Mapping[int, int]) -> str:
    """The schema of the latest JSON values of a topic, as Spark writes it. Raises PipelineError."""
    from pyspark.sql import functions as f

    starts = {str(part): max(first[part], end - SAMPLE) for part, end in last.items()}
    ends = {str(part): end for part, end in last.items()}
    reader = spark.read.format("longhall").options(**connection_options(bootstrap)).option("subscribe", topic)
    reader = reader.option("startingOffsets", json.dumps({topic: starts})).option("failOnDataLoss", "false")
    reader = reader.option("endingOffsets", json.dumps({topic: ends})).schema("value binary")
    values = reader.load().where("value is not null").select(f.col("value").cast("string").alias("value"))
    texts = [row[0] for row in values.collect()]
    found = spark.read.json(spark.sparkContext.parallelize(texts, 1)).schema if texts else None
    fields = [] if found is None else [each for each in found.fields if each.name != "_corrupt_record"]
    if not fields:
        why = "its latest messages are no JSON objects" if texts else "it has no messages yet"
        raise PipelineError(f"the columns of {topic} cannot be inferred: {why}; give them with --schema")
    return ", ".join(f"`{each.name}` {each.dataType.simpleString()}" for each in fields)


def columns_of(records: DataFrame, schema: str, topic: str) -> DataFrame:
    """The fields of the values and the columns of every message."""
    from pyspark.errors import ParseException
    from pyspark.sql import functions as f
    from pyspark.sql.types import StructType

    try:
        parsed = StructType.fromDDL(schema)
        names = parsed.names if isinstance(parsed, StructType) else []
    except ParseException as failure:
        raise PipelineError(f"the schema of {topic} is not understood: {_first_line(failure)}") from None
    told = f.from_json(f.col("value").cast("string"), schema).alias("told")
    rows = records.select(
        told,
        f.col("key").cast("string").alias(KEY),
        f.col("timestamp").alias(STAMP),
        f.col("topic").alias("_topic"),
        f.col("partition").alias("_partition"),
        f.col("offset").alias("_offset"),
        f.col("value").alias("_value"),
    )
    fields = [f.col("told").getField(name).alias(name) for name in names if name not in rows.columns]
    return rows.select(*fields, *rows.columns[1:])


def _marked(rows: DataFrame, mark: Watermark, topic: str) -> DataFrame:
    from pyspark.sql import functions as f

    if mark.column not in rows.columns:
        raise PipelineError(f"{topic} has no column {mark.column} for a watermark; it has {', '.join(rows.columns)}")
    kind = dict(rows.dtypes)[mark.column]
    if kind == "string":
        rows = rows.withColumn(mark.column, f.col(f"`{mark.column}`").try_cast("timestamp"))
    elif kind == "bigint":
        rows = rows.withColumn(mark.column, f.timestamp_millis(f.col(f"`{mark.column}`")))
    elif kind != "timestamp":
        raise PipelineError(f"{mark.column} of {topic} is {kind}, and a watermark needs a time")
    return rows.withWatermark(mark.column, mark.delay)


def _outgoing(result: DataFrame) -> DataFrame:
    """The rows of a result as messages: JSON values, and keys if there is a column for them."""
    from pyspark.sql import functions as f

    fields: list[Column] = [f.col(f"`{name}`") for name in result.columns if name != KEY]
    if not fields:
        raise PipelineError(f"the query gives nothing but {KEY}; select what shall be in the messages")
    value = f.to_json(f.struct(*fields)).alias("value")
    if KEY in result.columns:
        return result.select(f.col(KEY).cast("string").alias("key"), value)
    return result.select(value)


def _first_line(failure: BaseException) -> str:
    return next((line.strip() for line in str(failure).splitlines() if line.strip()), "no reason given")

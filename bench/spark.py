"""Reading through Spark: our data source beside native Parquet of the same rows and Spark's own Kafka connector.

One node, one topic of 1 KB and one of 100 B messages, two partitions each, and the same rows as Parquet. Every round
reads all of them in turn, whole and the values alone, into Spark's `noop` sink; each round begins with another. The
decoder is measured alone as well, in rows a CPU second, without Spark and without a broker.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from bench import machine, report, spark_decoding, spark_jobs, spark_tables
from bench.kafka import say
from bench.measure import process
from bench.peers.longhall import Longhall
from bench.spark_rows import fill

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_RESULTS = Path(__file__).with_name("results")
PARTITIONS = 2
JOB_ROUNDS = 2
COLUMNS = {"all": None, "value": "value binary"}


class Size(NamedTuple):
    """One kind of message."""

    name: str
    value_bytes: int
    messages: int


SIZES = (Size("1 KB", 1000, 400_000), Size("100 B", 100, 3_000_000))
QUICK = (Size("1 KB", 1000, 100_000), Size("100 B", 100, 500_000))


class Bench:
    """The session, the node and the Parquet files of one run."""

    def __init__(self, spark: SparkSession, node: Longhall, scratch: Path) -> None:
        self._spark = spark
        self._node = node
        self._scratch = scratch

    def prepare(self, size: Size) -> None:
        say(f"filling a topic with {size.messages:,} messages of {size.name}")
        fill(self._node.address, self.topic(size), PARTITIONS, size.value_bytes, size.messages)
        self.longhall(size, "all").write.parquet(str(self._scratch / self.topic(size)))

    @staticmethod
    def topic(size: Size) -> str:
        return f"messages-{size.value_bytes}"

    def longhall(self, size: Size, columns: str) -> DataFrame:
        reader = self._spark.read.format("longhall").option("kafka.bootstrap.servers", self._node.address)
        reader = reader.option("subscribe", self.topic(size))
        schema = COLUMNS[columns]
        return (reader.schema(schema) if schema is not None else reader).load()

    def kafka(self, size: Size, columns: str) -> DataFrame:
        reader = self._spark.read.format("kafka").option("kafka.bootstrap.servers", self._node.address)
        frame = reader.option("subscribe", self.topic(size)).load()
        return frame if columns == "all" else frame.select("value")

    def parquet(self, size: Size, columns: str) -> DataFrame:
        frame = self._spark.read.parquet(str(self._scratch / self.topic(size)))
        return frame if columns == "all" else frame.select("value")

    def measure(self, frame: DataFrame, size: Size) -> dict[str, float]:
        before, began = process.usage(self._node.pid), time.monotonic()
        frame.write.format("noop").mode("overwrite").save()
        seconds = time.monotonic() - began
        broker_seconds, _ = process.usage(self._node.pid).since(before)
        return {
            "rows_per_second": size.messages / seconds,
            "megabytes_per_second": size.messages * size.value_bytes / seconds / 1e6,
            "seconds": seconds,
            "broker_cpu_seconds": broker_seconds,
        }


def run(sizes: tuple[Size, ...], rounds: int, with_kafka: bool) -> dict[str, Any]:
    """Run all rounds; the first one warms everything up and does not count."""
    lines: dict[str, dict[str, list[dict[str, float]]]] = {}
    scratch = Path(tempfile.mkdtemp(prefix="bench-spark-"))
    spark = _session()
    try:
        with Longhall() as node:
            bench = Bench(spark, node, scratch)
            readers: dict[str, Callable[[Size, str], DataFrame]] = {
                "longhall": bench.longhall,
                "parquet": bench.parquet,
            }
            if with_kafka:
                readers["kafka"] = bench.kafka
            for size in sizes:
                bench.prepare(size)
            for number in range(rounds + 1):
                for size in sizes:
                    for columns in COLUMNS:
                        names = list(readers)
                        for name in names[number % len(names) :] + names[: number % len(names)]:
                            figures = bench.measure(readers[name](size, columns), size)
                            say(f"{size.name}, {columns}, {name}: {figures['megabytes_per_second']:,.0f} MB/s")
                            if number:
                                line = lines.setdefault(f"{size.name}, {columns}", {})
                                line.setdefault(name, []).append(figures)
            topics = {size.name: (bench.topic(size), size.value_bytes, size.messages) for size in sizes}
            jobs = spark_jobs.measure(spark, node, scratch, topics, JOB_ROUNDS)
    finally:
        spark.stop()
        shutil.rmtree(scratch, ignore_errors=True)
    return {
        "machine": {**machine.describe(), "spark": spark.version},
        "taken": time.strftime("%Y-%m-%d %H:%M"),
        "settings": {"rounds": rounds, "sizes": [list(size) for size in sizes]},
        "reading": lines,
        "jobs": jobs,
        "decoding": spark_decoding.decoding(),
    }


def _session() -> SparkSession:
    from longhall.pipeline import session

    settings = {"spark.driver.memory": "2g"}
    jars = _connector()
    if jars:
        settings["spark.jars"] = ",".join(jars)
    return session("local[2]", name="longhall bench", settings=settings, quiet=True)


def _connector() -> tuple[str, ...]:
    from tests.pipeline.connector import connector_jars

    return connector_jars()


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="bench spark", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="fewer messages and rounds, not published")
    parser.add_argument("--rounds", type=int, default=0, help="number of rounds (default: 5, quick: 2)")
    parser.add_argument("--decoding", action="store_true", help="the decoder alone, without Spark")
    parser.add_argument("--publish", action=argparse.BooleanOptionalAction, help="write docs/benchmarks.md (full runs)")
    given = parser.parse_args(arguments)
    if given.decoding:
        print(spark_tables.decoding_table({"decoding": spark_decoding.decoding()}))
        return
    with_kafka = bool(_connector())
    if not with_kafka:
        say("Spark's Kafka connector could not be fetched and is left out")
    result = run(QUICK if given.quick else SIZES, given.rounds or (2 if given.quick else 5), with_kafka)
    _RESULTS.mkdir(exist_ok=True)
    kept = _RESULTS / f"spark-{time.strftime('%Y%m%d-%H%M%S')}.json"
    kept.write_text(json.dumps(result, indent=1) + "\n")
    print(spark_tables.tables(result))
    if given.publish or (given.publish is None and not given.quick):
        (_RESULTS / "spark.json").write_text(kept.read_text())
        report.publish()

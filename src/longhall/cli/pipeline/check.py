"""`longhall pipeline check`: verify that jobs can run here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from longhall.cli.option_groups import with_option_groups
from longhall.cli.output import show_facts
from longhall.cli.pipeline.spark_job import SparkOptions, failures_in_one_line

if TYPE_CHECKING:
    from collections.abc import Iterable

    from longhall.pipeline.executor_check import ExecutorReport


@with_option_groups
def check(
    options: SparkOptions,
) -> None:
    """Check Java, PySpark, the executors, and their connection to the hall."""
    from longhall.client.security import security_of_environment
    from longhall.pipeline.spark import check_java, check_pyspark

    with failures_in_one_line():
        facts: dict[str, object] = {"pyspark": check_pyspark(), "java": check_java()}
    with options.start_job("check") as job:
        context = job.spark.sparkContext
        address, security = job.bootstrap, security_of_environment()

        def look(_: Iterable[int]) -> Iterable[ExecutorReport]:
            from longhall.pipeline.executor_check import check_executor

            yield check_executor(address, security)

        # Two visits, so that a cluster sends them to two executors.
        seen = context.parallelize(range(2), 2).mapPartitions(look).collect()
        facts["master"] = context.master
        facts["bootstrap"] = address
        facts["executors_python"] = seen[0].python
        words = ["shipped" if seen[0].shipped else "installed", "compiled" if seen[0].compiled else "plain"]
        facts["executors_longhall"] = ", ".join(words)
        facts["topics_seen_from_executors"] = seen[0].topics
    show_facts(facts, options.output)

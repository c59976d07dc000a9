"""`longhall pipeline check`: whether jobs can run here, before one of them has to find out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from longhall.cli.options import OutputOption, ProfileOption
from longhall.cli.output import Format, show_facts
from longhall.cli.pipeline.spark_job import BootstrapOption, MasterOption, SparkOption, failures_in_one_line, spark_job

if TYPE_CHECKING:
    from collections.abc import Iterable

    from longhall.pipeline.visit import Visit


def check(
    bootstrap: BootstrapOption = None,
    master: MasterOption = None,
    spark: SparkOption = None,
    profile: ProfileOption = None,
    output: OutputOption = Format.TABLE,
) -> None:
    """Check Java, PySpark, the executors, and their way to the hall."""
    from longhall.pipeline.spark import check_java, check_pyspark

    with failures_in_one_line():
        facts: dict[str, object] = {"pyspark": check_pyspark(), "java": check_java()}
    silent = output is Format.JSON
    with spark_job(
        "check", bootstrap=bootstrap, profile=profile, master=master, spark_settings=spark, silent=silent
    ) as job:
        context = job.spark.sparkContext
        address = job.bootstrap

        def look(_: Iterable[int]) -> Iterable[Visit]:
            from longhall.pipeline.visit import visit

            yield visit(address)

        # Two visits, so that a cluster sends them to two executors.
        seen = context.parallelize(range(2), 2).mapPartitions(look).collect()
        facts["master"] = context.master
        facts["bootstrap"] = address
        facts["executors_python"] = seen[0].python
        words = ["shipped" if seen[0].shipped else "installed", "compiled" if seen[0].compiled else "plain"]
        facts["executors_longhall"] = ", ".join(words)
        facts["topics_seen_from_executors"] = seen[0].topics
    show_facts(facts, output)

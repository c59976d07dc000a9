"""Archiving while tasks, the driver and the broker are killed. `python -m soak.archive` is the long form."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from longhall.pipeline.archive.job import Options, archive
from longhall.pipeline.replay.job import Options as ReplayOptions
from longhall.pipeline.replay.job import replay
from soak.archive import REPLAYED, TOPIC, ArchiveSoak, run_all

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.timeout(600)
def test_what_was_acknowledged_is_archived_once_and_replayed_alike(spark: SparkSession, tmp_path: Path) -> None:
    soak = ArchiveSoak(tmp_path, 1, lambda line: None, (0.2, 1.0))

    def finish() -> None:
        options = Options(bootstrap=soak.node.bootstrap, topics=(TOPIC,), to=str(soak.place))
        archive(spark, options, lambda words: None, lambda done, total: None)

    def again() -> None:
        options = ReplayOptions(bootstrap=soak.node.bootstrap, topics=(TOPIC,), to=REPLAYED, archive=str(soak.place))
        replay(spark, options, lambda words: None, lambda done, total: None)

    assert run_all(soak, ["tasks", "broker"], finish, again) > 100
    assert soak.kills == {"tasks": 1, "executors": 0, "driver": 1, "broker": 1}
    assert soak.looks > 0

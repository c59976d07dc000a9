"""Archive and replay, as commands, on a standalone cluster: the same as on a laptop."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from longhall.pipeline.conversation import Conversation
from longhall.records.batch import Record
from tests.pipeline.cluster import Cluster
from tests.pipeline.conftest import MakeTopic, Produce
from tests.pipeline.replay.test_job import content

pytestmark = [pytest.mark.timeout(400), pytest.mark.slow]


def run(cluster: Cluster, *words: str) -> Any:
    command = [sys.executable, "-m", "longhall.cli", "pipeline", *words, "-o", "json"]
    command += ["--master", cluster.master, "--spark", "spark.executor.memory=512m"]
    ended = subprocess.run(command, env=dict(os.environ), capture_output=True, text=True, timeout=300, check=False)
    assert ended.returncode == 0, ended.stderr + cluster.log_text("worker.Worker")[-2000:]
    assert ended.stderr == ""
    return json.loads(ended.stdout)


def test_a_topic_goes_into_the_archive_and_back(
    cluster: Cluster,
    bootstrap: str,
    make_topic: MakeTopic,
    produce: Produce,
    conversation: Conversation,
    tmp_path: Path,
) -> None:
    source, target = make_topic(2), make_topic(2)
    for partition in (0, 1):
        produce(
            source, partition, [Record(-1, 1_700_000_000_000 + each, b"%d" % each, b"v" * each) for each in range(50)]
        )
    given = ("--bootstrap", bootstrap, "--topics", source)
    assert run(cluster, "archive", *given, "--to", str(tmp_path / "archive"), "--once")["messages"] == 100
    assert run(cluster, "replay", *given, "--from", str(tmp_path / "archive"), "--to", target)["messages"] == 100
    for partition in (0, 1):
        assert content(conversation, target, partition) == content(conversation, source, partition)

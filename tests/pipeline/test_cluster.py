"""Jobs on a standalone cluster whose executors have nothing of Longhall but what the command brings them."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests.pipeline.cluster import Cluster

pytestmark = [pytest.mark.timeout(240), pytest.mark.slow]


def test_executors_are_brought_what_they_need(cluster: Cluster, bootstrap: str) -> None:
    command = [sys.executable, "-m", "longhall.cli", "pipeline", "check", "--bootstrap", bootstrap, "-o", "json"]
    command += ["--master", cluster.master, "--spark", "spark.executor.memory=512m"]
    ended = subprocess.run(command, env=dict(os.environ), capture_output=True, text=True, timeout=180, check=False)
    assert ended.returncode == 0, ended.stderr + cluster.log_text("worker.Worker")[-2000:]
    facts = json.loads(ended.stdout)
    assert facts["master"] == cluster.master
    assert facts["executors_longhall"].startswith("shipped")
    assert ended.stderr == ""

"""A fourth host is added and the first drained, by the commands for it, while clients continue through the drained
one.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from longhall.coordination.ensemble import Ensemble
from soak.cluster import WAIT_SECONDS, Cluster
from soak.node import COMMAND
from tests.cluster.load import Load

FIRST, FOURTH = 1, 4


@pytest.fixture
def grown(ensemble: Ensemble, tmp_path: Path) -> Iterator[Cluster]:
    """Three nodes with replicas, the first of which leads, and a fourth that runs without one."""
    made = Cluster(tmp_path, session_ms=3000, zookeeper=ensemble, path=f"/{tmp_path.name}")
    try:
        made.start(first=FIRST)
        made.nodes[FOURTH] = made.make(FOURTH)
        made.nodes[FOURTH].launch()
        made.nodes[FOURTH].wait_ready(WAIT_SECONDS)
        yield made
    finally:
        made.stop()


def _command(cluster: Cluster, *words: str) -> Any:
    """Run a command at the fourth node, which does not lead then."""
    command = [*COMMAND, "cluster", *words, "--http", cluster.nodes[FOURTH].http, "-o", "json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, f"{words}: {done.stderr}\n{cluster.log_tails()}"
    return json.loads(done.stdout)


def _roles(cluster: Cluster) -> dict[int, tuple[bool, bool, bool]]:
    """By node: whether it has a replica, is in sync, and leads."""
    return {row["node"]: (row["keeps"], row["in_sync"], row["leader"]) for row in _command(cluster, "status")}


def test_a_host_is_added_and_another_drained_under_load(grown: Cluster) -> None:
    load = Load(grown, "growing", FIRST, fifo=True)
    load.start()
    before = _roles(grown)
    assert before == {FIRST: (True, True, True), 2: (True, True, False), 3: (True, True, False), FOURTH: (False,) * 3}
    assert _command(grown, "add", str(FOURTH))["done"]
    load.wait_for_more()
    assert _command(grown, "drain", str(FIRST), "--wait")["done"]
    load.wait_for_more()
    after = _roles(grown)
    assert after[FIRST] == (False,) * 3
    assert [after[node][:2] for node in (2, 3, FOURTH)] == [(True, True)] * 3
    load.stop()
    assert load.refusals == []

    # No client needs the drained host, and the added one has a complete replica.
    _command(grown, "move", "--leader", str(FOURTH))
    assert _roles(grown)[FOURTH] == (True,) * 3
    grown.nodes[FIRST].kill()
    shutil.rmtree(grown.nodes[FIRST].data)
    load.check(FOURTH)

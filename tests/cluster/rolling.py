"""A rolling upgrade with real processes, under load: forward, back and forward again, and nothing acknowledged is
lost.
"""

from __future__ import annotations

from pathlib import Path

from longhall.coordination.ensemble import Ensemble
from soak.cluster import NODES, Cluster
from soak.upgrade import Upgrade
from tests.cluster.load import Load


def test_three_nodes_change_their_version_under_load(ensemble: Ensemble, tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, session_ms=3000, zookeeper=ensemble, path=f"/{tmp_path.name}")
    upgrade = Upgrade(cluster)
    try:
        upgrade.begin()
        load = Load(cluster, "rolling", NODES[0])
        load.start()
        upgrade.roll(load)
        load.stop()
        load.check(NODES[0])
    finally:
        cluster.stop()

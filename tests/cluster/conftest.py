"""One cluster of real processes for these tests. A test that injures it waits until all replicas are in sync again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from longhall.coordination.ensemble import Ensemble, PartMissing
from soak.cluster import Cluster
from tests.left_out import leave_out

# Tests that start real processes.
REAL = (
    "rolling.py",
    "test_any_node.py",
    "test_elections_by_clients.py",
    "test_front_end.py",
    "test_growing.py",
    "test_health.py",
    "test_joining.py",
    "test_leader_keeps.py",
    "test_lost_coordinator.py",
    "test_moves.py",
    "test_outbox.py",
    "test_power_cut.py",
    "test_producer_ids.py",
    "test_reassignments.py",
    "test_repair.py",
    "test_roles.py",
    "test_scaling.py",
    "test_scrub.py",
    "test_sealed.py",
    "test_spread.py",
    "test_stall.py",
    "test_strangers.py",
    "test_tls_between_nodes.py",
    "test_up.py",
    "test_wing_transactions.py",
    "test_wings.py",
)
SESSION_MS = 3000  # Half of the default, so that a pause beyond it is shorter.


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents and item.path.name in REAL:
            item.add_marker(pytest.mark.slow)
            if item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(240))


@pytest.fixture(scope="session")
def ensemble(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ensemble]:
    made = Ensemble(tmp_path_factory.mktemp("ensemble"), durable=False)
    try:
        made.start()
    except PartMissing as failure:
        leave_out(str(failure))
    try:
        yield made
    finally:
        made.stop()


@pytest.fixture(scope="session")
def whole(ensemble: Ensemble, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    made = Cluster(tmp_path_factory.mktemp("cluster"), session_ms=SESSION_MS, zookeeper=ensemble, path="/whole")
    try:
        made.start()
        yield made
    finally:
        made.stop()


@pytest.fixture
def cluster(whole: Cluster) -> Iterator[Cluster]:
    whole.wait_in_sync()
    yield whole
    for node in whole.nodes.values():
        if not node.running:  # A failed test left it so.
            node.start()

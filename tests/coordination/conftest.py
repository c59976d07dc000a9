"""One real ZooKeeper for all tests of this room; each test has its own root in it."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from longhall.coordination.ensemble import Ensemble, PartMissing
from tests.coordination.sides import Embedded, Side, Simulated, Workers, ZooKeeper
from tests.left_out import leave_out

_roots = itertools.count(1)


@pytest.fixture(scope="session")
def zookeeper() -> Iterator[Ensemble]:
    with tempfile.TemporaryDirectory(prefix="longhall-zookeeper-") as directory:
        ensemble = Ensemble(Path(directory), durable=False)
        try:
            ensemble.start()
        except PartMissing as failure:
            leave_out(str(failure))
        try:
            yield ensemble
        finally:
            ensemble.stop()


@pytest.fixture
def url(zookeeper: Ensemble) -> str:
    """An empty root in ZooKeeper."""
    return f"{zookeeper.url}/longhall/test-{next(_roots)}"


@pytest.fixture(params=["embedded", "workers", "zookeeper", "simulated"])
def side(request: pytest.FixtureRequest, tmp_path: Path) -> Side:
    """An implementation of the coordinator; a scenario must hold for each."""
    if request.param == "embedded":
        return Embedded(tmp_path / "data")
    if request.param == "workers":
        return Workers(tmp_path / "data")
    if request.param == "zookeeper":
        return ZooKeeper(request.getfixturevalue("url"))
    return Simulated()

"""One running node for all client tests, used from outside as by its users.

`LONGHALL_TEST_BOOTSTRAP=host:port` points the same tests at any running broker instead: another node of a cluster, or
Apache Kafka, against which the tests themselves are verified. `LONGHALL_TEST_WORKERS=2` starts the nodes of these
tests, and of those for SQS, with so many workers; with `LONGHALL_TEST_CLUSTER=1` each of them is a cluster, whose nodes
are used in turn.
"""

from __future__ import annotations

import itertools
import os
import time
import uuid
from collections.abc import Callable, Generator, Iterator, Mapping
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from soak.node import Node
from tests.clients.serving import CLUSTER, KIND, each_test, served

# A member that dies is missed after this; it is the least that brokers grant by default.
SESSION_MS = 6000
WAIT_SECONDS = 30.0
CLUSTER_TEST_SECONDS_MAX = 400  # Some tests start several nodes, each of which is a cluster then.
# Members of the consumer protocol are told how often to send heartbeats; the default of 5 s would make slow tests.
QUICK_GROUPS = [
    word
    for setting in (
        "consumer_groups.heartbeat_interval_min_ms=100ms",
        "consumer_groups.heartbeat_interval_ms=300ms",
        "consumer_groups.session_timeout_min_ms=1s",
        "consumer_groups.session_timeout_ms=6s",
    )
    for word in ("--set", setting)
]
COMPRESSIONS = ("none", "gzip", "snappy", "lz4", "zstd")

_numbers = itertools.count(1)
_run = uuid.uuid4().hex[:8]

FreshName = Callable[[str], str]
MakeTopic = Callable[..., str]


def pytest_report_header() -> str:
    """Name the broker under test in the header of the report."""
    given = os.environ.get("LONGHALL_TEST_BOOTSTRAP")
    return f"clients: {f'the broker that runs at {given}' if given else f'{KIND}, started for these tests'}"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.clients)
            if CLUSTER and item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(CLUSTER_TEST_SECONDS_MAX))


def eventually(holds: Callable[[], bool], what: str) -> None:
    """Wait for what brokers guarantee soon and not at once, such as metadata that another node has yet to receive."""
    deadline = time.monotonic() + WAIT_SECONDS
    while not holds():
        assert time.monotonic() < deadline, f"not within {WAIT_SECONDS:.0f} s: {what}"
        time.sleep(0.02)


@pytest.fixture(scope="session")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node | None]:
    """The node under test; None if the tests use a running broker."""
    if os.environ.get("LONGHALL_TEST_BOOTSTRAP"):
        yield None
        return
    with served(tmp_path_factory.mktemp("clients") / "data", options=QUICK_GROUPS) as running:
        yield running


@pytest.fixture(scope=each_test)
def bootstrap(node: Node | None) -> str:
    return _bootstrap(node)


@pytest.fixture(scope="module")
def module_bootstrap(node: Node | None) -> str:
    """For what is made once for all tests of a file."""
    return _bootstrap(node)


def _bootstrap(node: Node | None) -> str:
    return os.environ["LONGHALL_TEST_BOOTSTRAP"] if node is None else node.bootstrap


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A failure shows the end of the node's log beside what the test saw."""
    report = yield
    node = getattr(item, "funcargs", {}).get("node")
    if report.failed and isinstance(node, Node):
        report.sections.append(("log of the node", node.log_tail()))
    return report


@pytest.fixture
def fresh_name() -> FreshName:
    """A name that no other test and no earlier run has used."""
    return lambda word: f"{word}-{_run}-{next(_numbers)}"


@pytest.fixture(scope=each_test)
def admin(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap})


def _partitions(admin: AdminClient, name: str) -> int:
    found = admin.list_topics(timeout=10).topics.get(name)
    return 0 if found is None else len(found.partitions)


@pytest.fixture
def make_topic(admin: AdminClient, fresh_name: FreshName) -> MakeTopic:
    """A new topic, made and known before the test goes on."""

    def make(partitions: int = 1, config: Mapping[str, str] | None = None) -> str:
        name = fresh_name("topic")
        # Tests give their records timestamps of their own, some of them long ago: nothing may be too old to keep.
        chosen = {"retention.ms": "-1"} if config is None else dict(config)
        wanted = NewTopic(name, num_partitions=partitions, replication_factor=1, config=chosen)
        for future in admin.create_topics([wanted]).values():
            future.result(WAIT_SECONDS)
        eventually(lambda: _partitions(admin, name) == partitions, f"{name} is known")
        return name

    return make


@pytest.fixture
def topic(make_topic: MakeTopic) -> str:
    return make_topic()

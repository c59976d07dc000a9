"""The scale hook with Longhall's own command: a host comes when there are many partitions, and goes after."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from longhall.console.cluster_view import HostView, WingView
from longhall.coordination.ensemble import Ensemble
from soak.cluster import Cluster, wait_until
from soak.node import COMMAND

PARTITIONS = 14
ADDED = 4


@pytest.fixture
def scaling(ensemble: Ensemble, tmp_path: Path) -> Iterator[Cluster]:
    hook = " ".join(COMMAND) + " cluster scale-local"
    settings = {"default_placement": "spread", "parts_per_host": "4", "scale_hook": hook}
    made = Cluster(tmp_path, session_ms=3000, zookeeper=ensemble, path=f"/{tmp_path.name}", settings=settings)
    try:
        made.start()
        yield made
    finally:
        made.stop()
        started = tmp_path / "scaled" / "hosts.json"
        for host in json.loads(started.read_text()) if started.exists() else []:
            with suppress(ProcessLookupError):
                os.kill(host["pid"], signal.SIGKILL)


def _host(cluster: Cluster) -> HostView | None:
    """The host that the command has started, as the leader sees it."""
    view = cluster.view()
    return None if view is None else next((host for host in view.hosts if host.node == ADDED), None)


def _wing(cluster: Cluster) -> WingView | None:
    """The wing of this host."""
    view = cluster.view()
    return None if view is None else next((wing for wing in view.wings if wing.name == f"host-{ADDED}"), None)


@pytest.mark.timeout(480)
def test_a_host_comes_for_many_partitions_and_goes_when_they_are_deleted(scaling: Cluster) -> None:
    admin = AdminClient({"bootstrap.servers": scaling.bootstrap})
    admin.create_topics([NewTopic("many", PARTITIONS, config={"longhall.placement": "parts"})])["many"].result(60)
    producer = Producer({"bootstrap.servers": scaling.bootstrap})
    for number in range(10 * PARTITIONS):
        producer.produce("many", str(number), partition=number % PARTITIONS)
    assert producer.flush(60) == 0

    wait_until(lambda: (wing := _wing(scaling)) is not None and wing.leader == ADDED, "it leads", scaling.log_tails)
    host = _host(scaling)
    assert host is not None
    assert not host.keeps, "a host that is added for its share gets no copy of the hall"
    wait_until(
        lambda: (wing := _wing(scaling)) is not None and bool(wing.placed), "it has its share", scaling.log_tails
    )
    assert _read(scaling) == [str(number).encode() for number in range(10 * PARTITIONS)]

    admin.delete_topics(["many"])["many"].result(60)
    wait_until(lambda: (host := _host(scaling)) is None or host.alive is False, "it is gone", scaling.log_tails)
    wing = _wing(scaling)
    assert wing is not None
    assert ADDED not in wing.keepers, "it was drained before it was stopped"


def _read(cluster: Cluster) -> list[bytes | None]:
    """All messages, in the order in which they were sent."""
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "readers"})
    consumer.assign([TopicPartition("many", number, 0) for number in range(PARTITIONS)])
    found: list[bytes | None] = []
    while len(found) < 10 * PARTITIONS:
        messages = consumer.consume(500, timeout=20)
        assert messages, f"{len(found)} messages were read\n{cluster.log_tails()}"
        found += [message.value() for message in messages]
    consumer.close()
    return sorted(found, key=lambda value: int(value or b"-1"))

"""Data directories in a cluster: one that was a lone node's, one that is empty, one that belongs elsewhere."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from longhall.coordination.ensemble import Ensemble
from soak.cluster import NODES, Cluster
from soak.node import Node


@pytest.fixture
def late(ensemble: Ensemble, tmp_path: Path) -> Iterator[Cluster]:
    """A cluster whose nodes the test starts."""
    made = Cluster(tmp_path, session_ms=3000, zookeeper=ensemble, path=f"/{tmp_path.name}")
    yield made
    made.stop()


def _send(bootstrap: str, first: int, count: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(first, first + count):
        producer.produce("t", str(number) * 50)
    assert producer.flush(60) == 0


def _read(bootstrap: str, count: int) -> list[str]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "g", "enable.auto.commit": False})
    consumer.assign([TopicPartition("t", 0, 0)])
    found: list[Any] = consumer.consume(count, 60)
    consumer.close()
    return [message.value().decode() for message in found]


def test_a_lone_node_becomes_a_cluster_and_a_new_host_gets_everything(late: Cluster) -> None:
    with Node(late.home / "node1", home=late.home) as lone:
        _send(lone.bootstrap, 0, 50)
        assert lone.stop() == 0
    for number in NODES:
        late.nodes[number] = late.make(number)
        late.nodes[number].start()  # The first brings its hall; the others have none.
    late.wait_in_sync()
    _send(late.bootstrap, 50, 50)
    leader = late.leader()
    late.nodes[leader].kill()
    assert late.leader() != leader
    late.wait_in_sync(2)
    assert _read(late.bootstrap, 100) == [str(number) * 50 for number in range(100)]

    # The disk of the dead one is lost: under the same number it fetches everything.
    shutil.rmtree(late.nodes[leader].data)
    late.nodes[leader].start()
    late.wait_in_sync()
    assert _read(late.nodes[leader].bootstrap, 100) == [str(number) * 50 for number in range(100)]

    # A directory of this cluster is nobody's alone, and no other number's.
    node = late.nodes[leader]
    assert node.stop() == 0
    for options, word in (([], "--coordinator"), ([*node.options[:3], "9"], "belongs to node")):
        stray = Node(node.data, options=options, home=late.home)
        stray.launch()
        assert stray.wait_end() == 1
        assert word in stray.log_tail()

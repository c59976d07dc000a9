"""All nodes lose power at once, and one of them never comes back: the others serve what was acknowledged."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from longhall.coordination.ensemble import Ensemble
from soak.cluster import Cluster, wait_until
from tests.cluster.ledger import acknowledged, make_topic, readable


@pytest.fixture
def three(ensemble: Ensemble, tmp_path: Path) -> Iterator[Cluster]:
    made = Cluster(tmp_path, session_ms=6000, zookeeper=ensemble, path=f"/{tmp_path.name}")
    made.start()
    try:
        yield made
    finally:
        made.stop()


@pytest.mark.parametrize("lost", ["leader", "follower"])
def test_two_of_three_that_come_back_within_the_session_serve(three: Cluster, lost: str) -> None:
    make_topic(three)
    words = [f"word-{number}" for number in range(2000)]
    acknowledged(three, words)
    three.wait_in_sync()  # On a busy machine one of them may have been behind, and would not count below.
    leader = three.leader()
    for node in three.nodes.values():
        os.kill(node.pid, signal.SIGKILL)
    for node in three.nodes.values():
        node.kill()
    gone = leader if lost == "leader" else three_others(three, leader)[0]
    back = three_others(three, gone)
    for number in back:  # ZooKeeper still has the sessions of all of them.
        three.nodes[number].launch()
    for number in back:
        three.nodes[number].wait_ready(60)
    three.wait_in_sync(2)
    assert readable(three.nodes[back[0]].bootstrap) == words
    acknowledged(three, ["one more"])


def test_one_of_three_that_comes_back_says_for_whom_it_waits(three: Cluster) -> None:
    make_topic(three)
    acknowledged(three, ["first"])
    three.wait_in_sync()
    for node in three.nodes.values():
        node.kill()
    back = three.nodes[1]
    back.launch()
    wait_until(lambda: "the election waits for replicas in sync" in back.log_text(), "the reason", three.log_tails)
    assert 'in_sync="[1, 2, 3]"' in back.log_text()
    three.nodes[2].launch()
    for number in (1, 2):
        three.nodes[number].wait_ready(60)
    three.wait_in_sync(2)
    assert readable(three.bootstrap) == ["first"]


def three_others(cluster: Cluster, besides: int) -> list[int]:
    return [number for number in cluster.nodes if number != besides]

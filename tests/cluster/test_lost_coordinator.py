"""ZooKeeper loses the data of a cluster, on real processes: nothing acknowledged is lost, in any order of starts."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NotEmptyError

from longhall.coordination.ensemble import Ensemble
from soak.cluster import Cluster, wait_until
from soak.node import COMMAND
from tests.cluster.ledger import acknowledged, make_topic, readable

KEEPS_NOTHING = 4


class Four(Cluster):
    """Three nodes with replicas, and a fourth without one."""

    def start(self, *, first: int = 0) -> None:
        super().start(first=first)
        self.nodes[KEEPS_NOTHING] = self.make(KEEPS_NOTHING)
        self.nodes[KEEPS_NOTHING].start()


@pytest.fixture
def four(ensemble: Ensemble, tmp_path: Path) -> Iterator[Four]:
    made = Four(tmp_path, session_ms=2000, zookeeper=ensemble, path=f"/{tmp_path.name}")
    made.start()
    try:
        yield made
    finally:
        made.stop()


def forget(ensemble: Ensemble, path: str) -> None:
    """Delete all data of the cluster in ZooKeeper."""
    client = KazooClient(ensemble.connect)
    client.start()
    try:
        while client.exists(path) is not None:
            with contextlib.suppress(NotEmptyError):  # Running nodes register again meanwhile.
                client.delete(path, recursive=True)
                break
    finally:
        client.stop()
        client.close()


def stop_all(cluster: Cluster) -> None:
    for node in cluster.nodes.values():
        if node.running:
            os.kill(node.pid, signal.SIGKILL)
    for node in cluster.nodes.values():
        node.kill()


def ready_text(address: str) -> str:
    """The text of /readyz."""
    try:
        with urllib.request.urlopen(f"http://{address}/readyz", timeout=2) as answer:
            return str(answer.read().decode())
    except urllib.error.HTTPError as refusal:
        return refusal.read().decode()
    except OSError as error:
        return str(error)


def command(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*COMMAND, *words], capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize(
    "order", [(4, 1, 2, 3), (3, 4, 2, 1), ()], ids=["keeps-nothing-first", "lagging-first", "at-once"]
)
def test_no_start_order_loses_anything(four: Four, ensemble: Ensemble, tmp_path: Path, order: tuple[int, ...]) -> None:
    make_topic(four)
    words = [f"first-{number}" for number in range(1000)]
    acknowledged(four, words)
    lags = 3 if four.leader() != 3 else 2
    four.nodes[lags].kill()
    more = [f"second-{number}" for number in range(1000)]
    four.wait_in_sync(2)
    acknowledged(four, more)
    stop_all(four)
    forget(ensemble, f"/{tmp_path.name}")
    order = tuple({3: lags, lags: 3}.get(one, one) for one in order)
    for number in order[:-1]:
        four.nodes[number].launch()
        time.sleep(1.0)  # Longer than a start takes: it finds no other node.
    for number in set(four.nodes) - set(order[:-1]):
        four.nodes[number].launch()
    for node in four.nodes.values():
        node.wait_ready(60)
    four.wait_in_sync()
    assert readable(four.bootstrap) == words + more
    for node in four.nodes.values():
        assert ready_text(node.http).strip() == "ok"
    assert not list(tmp_path.glob("node*/given-up*"))


def test_lost_coordinator_data_under_load_loses_no_message(four: Four, ensemble: Ensemble, tmp_path: Path) -> None:
    """Senders continue, and the record is rebuilt: the next leader is elected under it."""
    make_topic(four)
    words = [f"before-{number}" for number in range(500)]
    acknowledged(four, words)
    forget(ensemble, f"/{tmp_path.name}")
    more = [f"after-{number}" for number in range(500)]
    acknowledged(four, more)
    four.wait_in_sync()

    def is_recorded() -> bool:
        client = KazooClient(ensemble.connect)
        client.start()
        try:
            return client.exists(f"/{tmp_path.name}/shards/0") is not None
        finally:
            client.stop()
            client.close()

    wait_until(is_recorded, "the record is rebuilt", four.log_tails)
    now = four.view()
    assert now is not None
    os.kill(four.nodes[now.leader].pid, signal.SIGKILL)
    four.nodes[now.leader].kill()
    four.leader(besides=now.leader)
    assert readable(four.bootstrap) == words + more


def test_missing_nodes_are_named_and_an_operator_may_override(four: Four, ensemble: Ensemble, tmp_path: Path) -> None:
    make_topic(four)
    words = [f"first-{number}" for number in range(200)]
    acknowledged(four, words)
    leader = four.leader()
    away, stays = (number for number in (1, 2, 3) if number != leader)
    four.nodes[stays].kill()
    four.wait_in_sync(2)
    more = [f"second-{number}" for number in range(300)]
    acknowledged(four, more)
    stop_all(four)
    forget(ensemble, f"/{tmp_path.name}")
    http = f"127.0.0.1:18{os.getpid() % 1000:03d}"
    node = four.nodes[stays]
    node._doors["http"] = http
    node.launch()
    wait_until(lambda: "lost the record" in ready_text(http), "the node says why it waits", four.log_tails)
    shown = command("cluster", "recover", "--http", http)
    assert shown.returncode == 0, shown.stderr
    assert "cannot be rebuilt safely" in shown.stdout + shown.stderr
    assert f"nodes {min(away, leader)}, {max(away, leader)}" in shown.stdout + shown.stderr
    refused = command("cluster", "recover", "--http", http, "--yes")
    assert refused.returncode != 0
    assert "--unclean" in refused.stderr
    dry = command("cluster", "recover", "--http", http, "--unclean", str(stays))
    assert "is not known" in dry.stdout + dry.stderr
    done = command("cluster", "recover", "--http", http, "--unclean", str(stays), "--yes")
    assert done.returncode == 0, done.stderr
    node.wait_ready(60)
    assert readable(node.bootstrap) == words
    others = [four.nodes[number] for number in four.nodes if number != stays]
    for other in others:
        other.launch()
    for other in others:
        other.wait_ready(60)
    four.wait_in_sync()
    assert readable(four.bootstrap) == words
    kept = sorted(path.parent.name for path in tmp_path.glob("node*/given-up-1"))
    assert kept == sorted(f"node{number}" for number in (leader, away))

"""What a cluster reports when something is wrong: readiness, liveness, and clients of a leader that hangs."""

from __future__ import annotations

import os
import signal
import time
import urllib.error
import urllib.request
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from longhall.cli.cluster.status import ask
from longhall.cluster.membership.liveness import CACHED_S
from soak.cluster import Cluster, wait_until
from soak.node import Node


def test_a_node_is_ready_only_while_a_send_would_succeed(cluster: Cluster) -> None:
    wait_until(lambda: all(_ready(node)[0] == 200 for node in cluster.nodes.values()), "all are ready")
    leader, (second, third) = cluster.leader(), cluster.followers()
    cluster.nodes[leader].kill()
    cluster.nodes[second].kill()
    try:
        wait_until(lambda: _ready(cluster.nodes[third])[0] == 503, "the last one is not ready")
        left = cluster.nodes[third]
        wait_until(lambda: "too few nodes are in sync" in _ready(left)[1], "it leads, and takes no messages")
    finally:
        cluster.nodes[leader].start()
        cluster.nodes[second].start()
    cluster.wait_in_sync()
    wait_until(lambda: all(_ready(node)[0] == 200 for node in cluster.nodes.values()), "all are ready again")


def test_a_dead_node_is_not_reported_alive_while_its_session_lasts(cluster: Cluster) -> None:
    dead, other = cluster.followers()
    time.sleep(CACHED_S)  # What was asked before is forgotten.
    cluster.nodes[dead].kill()
    try:
        hosts = {host.node: host for host in ask(cluster.nodes[other].http).hosts}
        assert hosts[dead].alive is False
        assert hosts[other].alive is True
    finally:
        cluster.nodes[dead].start()


def test_the_next_leader_answers_the_clients_of_a_hanging_leader(cluster: Cluster) -> None:
    """With librdkafka's defaults, which wait for a minute and more."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.create_topics([NewTopic("hung", 1, 3)])["hung"].result(30)
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    producer.produce("hung", b"before")
    assert producer.flush(30) == 0
    leader = cluster.nodes[cluster.leader()]
    os.kill(leader.pid, signal.SIGSTOP)  # Its helpers and its watchdog go on.
    producer.produce("hung", b"after")
    left = producer.flush(45)
    code = leader.wait_end()
    leader.start()
    assert left == 0, "the producer still waits for the leader that hangs"
    assert code == -signal.SIGKILL
    assert "has not run for" in leader.log_text()


def test_the_watchdog_is_as_the_settings_say(cluster: Cluster) -> None:
    first, second = (cluster.nodes[number] for number in cluster.followers())
    assert _watchdogs(first) == ["6000"]
    before = list(first.options), list(second.options)
    try:
        _restart({first: [*before[0], "--set", "hang_ms_max=30s"], second: [*before[1], "--set", "watchdog=false"]})
        assert _watchdogs(first) == ["30000"]
        assert _watchdogs(second) == []
    finally:
        _restart({first: before[0], second: before[1]})


def _restart(nodes: dict[Node, list[str]]) -> None:
    """Restart all nodes at once, each with these options."""
    for node, options in nodes.items():
        node.kill()
        node.options = options
        node.launch()
    for node in nodes:
        node.wait_ready()


def _watchdogs(node: Node) -> list[str]:
    """The silence in milliseconds that each watchdog of the node permits."""
    children = Path(f"/proc/{node.pid}/task/{node.pid}/children").read_text().split()
    commands = [Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0") for child in children]
    return [command[-2].decode() for command in commands if any(b"watchdog_process" in word for word in command)]


def _ready(node: Node) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://{node.http}/readyz", timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()

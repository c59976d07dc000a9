"""Nodes that store the hall alone, and nodes that store wings alone, as processes of one cluster."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from longhall.cli.cluster.status import ask
from longhall.coordination.ensemble import Ensemble
from soak.cluster import Cluster
from soak.node import COMMAND, Node, NodeFailed
from tests.cluster.load import sqs_client

METADATA = (1, 2, 3)
STORAGE = (4, 5)
ROLES = {**dict.fromkeys(METADATA, "metadata"), **dict.fromkeys(STORAGE, "storage")}
MARK = b"51d0-marked-message-body"
WAIT_S = 90.0
HEARD = "heard.json"  # What the scale hook is told.


@pytest.fixture(scope="module")
def apart(ensemble: Ensemble, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    home = tmp_path_factory.mktemp("roles")
    hook = home / "hook.py"
    hook.write_text(f"import pathlib, sys\npathlib.Path({str(home / HEARD)!r}).write_text(sys.stdin.read())\n")
    scaling = {"scale_hook": f"{sys.executable} {hook}", "load_per_host": "4KiB"}
    spread = {"default_placement": "spread", **scaling}
    cluster = Cluster(home, session_ms=3000, zookeeper=ensemble, path=f"/{home.name}", settings=spread)
    try:
        for number, role in ROLES.items():
            cluster.nodes[number] = _with_role(cluster.make(number), role)
            cluster.nodes[number].start()
        _wait_for_groups(cluster)
        yield cluster
    finally:
        cluster.stop()


def _with_role(node: Node, role: str) -> Node:
    node.options += ["--role", role]
    return node


def _run(cluster: Cluster, *words: str) -> subprocess.CompletedProcess[str]:
    command = [*COMMAND, "cluster", *words, "--address", cluster.nodes[4].http]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def _rows(cluster: Cluster, *words: str) -> Any:
    done = _run(cluster, *words, "-o", "json")
    assert done.returncode == 0, f"{done.stderr}\n{cluster.log_tails()}"
    return json.loads(done.stdout)


def _wait_for_groups(cluster: Cluster) -> None:
    ends_s = time.monotonic() + WAIT_S
    while time.monotonic() < ends_s:
        done = _run(cluster, "wing", "list", "-o", "json")
        wings = json.loads(done.stdout) if done.returncode == 0 else []
        if [wing["leader"] for wing in wings] == list(STORAGE) and all(wing["in_sync"] == "4, 5" for wing in wings):
            return
        time.sleep(0.5)
    raise AssertionError(f"the storage nodes lead no wings after {WAIT_S} s\n{cluster.log_tails()}")


def _has_mark(node: Node) -> bool:
    return any(MARK in path.read_bytes() for path in node.data.rglob("*") if path.is_file())


def test_messages_are_on_storage_nodes_and_the_catalogue_on_metadata_nodes(apart: Cluster) -> None:
    queue = sqs_client(apart.nodes[1].sqs).create_queue(QueueName="orders")["QueueUrl"]
    sqs_client(apart.nodes[2].sqs).send_message(QueueUrl=queue, MessageBody=MARK.decode())
    admin = AdminClient({"bootstrap.servers": apart.nodes[1].bootstrap})
    admin.create_topics([NewTopic("events", num_partitions=4)])["events"].result(30)
    producer = Producer({"bootstrap.servers": apart.nodes[1].bootstrap})
    for partition in range(4):
        producer.produce("events", MARK, partition=partition)
    assert producer.flush(60) == 0

    hosts = {host.node: host for host in ask(apart.nodes[5].http).hosts}
    assert {number: host.role for number, host in hosts.items()} == ROLES
    assert {number for number, host in hosts.items() if host.keeps} == set(METADATA)
    rows = _rows(apart, "map")
    assert {row["leader"] for row in rows if row["name"] == "events"} == set(STORAGE)
    assert {tuple(sorted(row["replicas"])) for row in rows if row["name"] in ("orders", "events")} == {STORAGE}
    received = sqs_client(apart.nodes[3].sqs).receive_message(QueueUrl=queue, WaitTimeSeconds=20)
    assert [message["Body"] for message in received["Messages"]] == [MARK.decode()]
    assert [number for number, node in apart.nodes.items() if _has_mark(node)] == list(STORAGE)


def test_every_node_says_how_much_is_placed_in_each_wing(apart: Cluster) -> None:
    admin = AdminClient({"bootstrap.servers": apart.nodes[1].bootstrap})
    admin.create_topics([NewTopic("counted", num_partitions=2)])["counted"].result(30)
    placed = [row["placed"] for row in _rows(apart, "wing", "list")]
    assert len(placed) == len(STORAGE)
    assert all(placed)
    for number in apart.nodes:
        known = {name: value for name, value in _samples(apart.nodes[number], "longhall_wing_placed").items() if value}
        assert len(known) == (len(STORAGE) if number in METADATA else 0), f"node {number}: {known}"
        assert _samples(apart.nodes[number], "longhall_wing_placed") == known, "no node without the catalogue says 0"


def test_metrics_have_the_lag_of_groups_in_spread_topics(apart: Cluster) -> None:
    admin = AdminClient({"bootstrap.servers": apart.nodes[1].bootstrap})
    admin.create_topics([NewTopic("lagging", num_partitions=4)])["lagging"].result(30)
    producer = Producer({"bootstrap.servers": apart.nodes[1].bootstrap})
    for number in range(40):
        producer.produce("lagging", b"x", partition=number % 4)
    assert producer.flush(60) == 0
    consumer = Consumer({"bootstrap.servers": apart.nodes[1].bootstrap, "group.id": "readers"})
    consumer.commit(offsets=[TopicPartition("lagging", number, 10 - number) for number in range(4)], asynchronous=False)
    consumer.close()
    lag = {f'{{consumergroup="readers",partition="{number}",topic="lagging"}}': float(number) for number in range(4)}
    for number in METADATA:
        _wait_for_samples(apart.nodes[number], "kafka_consumergroup_lag", lag)
        seconds = _samples(apart.nodes[number], "kafka_consumergroup_lag_seconds")
        assert set(seconds) == set(lag)
        assert [value > 0 for _, value in sorted(seconds.items())] == [False, True, True, True]
    assert _samples(apart.nodes[STORAGE[0]], "kafka_topic_partition_current_offset"), "a wing shows its partitions"


def _wait_for_samples(node: Node, name: str, wanted: dict[str, float]) -> None:
    """Wait until a node shows these: followers know of a commit a moment later than the leader."""
    ends_s = time.monotonic() + 20
    while (found := _samples(node, name)) != wanted:
        assert time.monotonic() < ends_s, f"{found} instead of {wanted}"
        time.sleep(0.1)


def _samples(node: Node, name: str) -> dict[str, float]:
    """The samples of one family in the metrics of a node, by their labels."""
    with urllib.request.urlopen(f"http://{node.http}/metrics", timeout=20) as answer:
        lines = answer.read().decode().splitlines()
    found = (line.rsplit(" ", 1) for line in lines if line.startswith(name + "{"))
    return {sample.removeprefix(name): float(value) for sample, value in found}


def test_the_scale_hook_counts_storage_nodes_and_sees_their_load(apart: Cluster) -> None:
    admin = AdminClient({"bootstrap.servers": apart.nodes[1].bootstrap})
    admin.create_topics([NewTopic("busy", num_partitions=4)])["busy"].result(30)
    producer = Producer({"bootstrap.servers": apart.nodes[1].bootstrap})
    ends_s = time.monotonic() + WAIT_S
    heard: dict[str, Any] = {}
    while heard.get("hosts_wanted", 0) <= 3:
        assert time.monotonic() < ends_s, f"no more hosts than copies are wanted: {heard}"
        for partition in range(4):
            producer.produce("busy", b"x" * 10_000, partition=partition)
        producer.flush(60)
        time.sleep(0.2)
        path = apart.nodes[1].data.parent / HEARD
        heard = json.loads(path.read_text() or "{}") if path.exists() else {}
    assert (heard["want"], heard["hosts"]) == ("more", len(STORAGE))
    assert heard["load_bytes_a_second"] > 3 * heard["load_per_host"] == 3 * 4096


def test_clients_go_on_when_a_node_of_each_role_dies(apart: Cluster) -> None:
    client = sqs_client(apart.nodes[4].sqs)
    queue = client.create_queue(QueueName="lasting")["QueueUrl"]
    client.send_message(QueueUrl=queue, MessageBody="before")
    leader = ask(apart.nodes[4].http).leader
    assert leader in METADATA
    apart.nodes[leader].kill()
    _retried(lambda: client.send_message(QueueUrl=queue, MessageBody="between"))
    _retried(lambda: client.create_queue(QueueName="later"))
    apart.nodes[leader].start()
    _wait_for_groups(apart)
    rows = [row for row in _rows(apart, "map") if row["name"] in ("lasting", "later")]
    assert {row["leader"] for row in rows} <= set(STORAGE)


def _retried(attempt: Any) -> None:
    """Repeat an attempt while it fails, as an application does."""
    ends_s = time.monotonic() + WAIT_S
    while True:
        try:
            attempt()
            return
        except Exception:
            if time.monotonic() > ends_s:
                raise
            time.sleep(0.2)


def test_operators_cannot_place_copies_against_a_role(apart: Cluster) -> None:
    for words in (("add", "4"), ("move", "1", "4"), ("move", "--leader", "5")):
        done = _run(apart, *words)
        assert done.returncode != 0
        assert "is a storage node, which never keeps the hall" in done.stderr
    wing = _run(apart, "wing", "add", "own", "--hosts", "1,4")
    assert wing.returncode != 0
    assert "node 1 is a metadata node, which keeps no wings" in wing.stderr
    factor = _run(apart, "factor", "4")
    assert factor.returncode != 0
    assert "there are 3 hosts to keep 4 copies" in factor.stderr


def test_a_storage_node_begins_no_cluster_and_takes_no_copy_of_the_hall_along(apart: Cluster, tmp_path: Path) -> None:
    alone = Cluster(tmp_path, zookeeper=apart.zookeeper, path=f"/{tmp_path.name}-alone")
    with pytest.raises(NodeFailed, match="no node that stores the hall yet"):
        _with_role(alone.make(1), "storage").start()
    follower = apart.nodes[next(number for number in METADATA if number != ask(apart.nodes[4].http).leader)]
    follower.stop()
    follower.options[-1] = "storage"
    try:
        with pytest.raises(NodeFailed, match="has a copy of the hall"):
            follower.start()
    finally:
        follower.options[-1] = "metadata"
        follower.start()


def test_a_host_that_becomes_a_metadata_node_gives_its_wings_to_others(apart: Cluster) -> None:
    apart.nodes[6] = apart.make(6)
    apart.nodes[6].start()
    _wait_for_hosts(apart, "host-6", lambda hosts: hosts[:1] == [6])
    apart.nodes[6].stop()
    _with_role(apart.nodes[6], "metadata").start()
    _wait_for_hosts(apart, "host-6", lambda hosts: sorted(hosts) == list(STORAGE))
    _wait_for_hosts(apart, "host-4", lambda hosts: sorted(hosts) == list(STORAGE))


def _wait_for_hosts(cluster: Cluster, wing: str, holds: Callable[[list[int]], bool]) -> None:
    """Wait until the hosts of a wing, the preferred leader first, are as they should be, and all of them in sync."""
    ends_s = time.monotonic() + WAIT_S
    rows: Any = []
    while time.monotonic() < ends_s:
        rows = [row for row in _rows(cluster, "wing", "list") if row["wing"] == wing]
        if (
            rows
            and holds(_numbers(rows[0]["keepers"]))
            and _numbers(rows[0]["in_sync"]) == sorted(_numbers(rows[0]["keepers"]))
        ):
            return
        time.sleep(0.5)
    raise AssertionError(f"after {WAIT_S} s: {rows}\n{cluster.log_tails()}")


def _numbers(listed: str) -> list[int]:
    return [int(number) for number in listed.split(", ") if number]

"""A fourth host joins a cluster under load: it takes its share of the partitions and queues that exist, and leads it. A
drained host gives it back. Clients go on, and nothing that was acknowledged is lost, doubled or out of order.
"""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from longhall.coordination.ensemble import Ensemble
from soak.cluster import NODES, WAIT_SECONDS, Cluster, wait_until
from soak.node import COMMAND
from tests.cluster.load import Load, sqs_client
from tests.cluster.wings import wings_of

JOINING = 4
TOPIC, PARTITIONS = "existing", 6
QUEUES = [f"existing-{number}" for number in range(6)]
MESSAGES = 20  # In each queue and partition.


@pytest.fixture
def spread(ensemble: Ensemble, tmp_path: Path) -> Iterator[Cluster]:
    """Three hosts, each of which leads its group."""
    settings = {"default_placement": "spread", "balance_automatic": "false"}  # The test says when.
    made = Cluster(tmp_path, session_ms=3000, zookeeper=ensemble, path=f"/{tmp_path.name}", settings=settings)
    try:
        made.start()
        wait_until(lambda: _leaders(made) == {number: number for number in NODES}, "the groups", made.log_tails)
        yield made
    finally:
        made.stop()


def _leaders(cluster: Cluster) -> dict[int, int]:
    """By number of a group that has all its replicas: the host that leads it."""
    full = [wing for wing in wings_of(cluster) if len(wing["in_sync"].split(",")) == len(NODES)]
    return {wing["number"]: wing["leader"] for wing in full}


def _run(cluster: Cluster, *words: str) -> Any:
    command = [*COMMAND, "cluster", *words, "--http", cluster.nodes[2].http, "-o", "json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, f"{words}: {done.stderr}\n{cluster.log_tails()}"
    return json.loads(done.stdout)


def _map(cluster: Cluster) -> dict[tuple[str, int], tuple[str, int]]:
    """By topic or queue and partition: its group, and the host that leads it."""
    return {(row["name"], row["partition"]): (row["group"], row["leader"]) for row in _run(cluster, "map")}


def _balance(cluster: Cluster) -> None:
    """Begin what balances the hosts, until nothing is left to move."""

    def is_balanced() -> bool:
        plan = _run(cluster, "balance")
        return not plan["begun"] and not _run(cluster, "moves")

    wait_until(is_balanced, "a balanced cluster", cluster.log_tails)


def _fill(cluster: Cluster) -> None:
    """A topic and queues that are there, with messages, before the host joins."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.create_topics([NewTopic(TOPIC, PARTITIONS)], request_timeout=WAIT_SECONDS)[TOPIC].result(WAIT_SECONDS)
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    for number in range(MESSAGES * PARTITIONS):
        producer.produce(TOPIC, str(number), partition=number % PARTITIONS)
    assert producer.flush(WAIT_SECONDS) == 0
    sqs = sqs_client(cluster.nodes[1].sqs)
    for name in QUEUES:
        url = sqs.create_queue(QueueName=name)["QueueUrl"]
        for first in range(0, MESSAGES, 10):
            entries = [{"Id": str(number), "MessageBody": str(number)} for number in range(first, first + 10)]
            assert len(sqs.send_message_batch(QueueUrl=url, Entries=entries)["Successful"]) == 10


def _check_queues(cluster: Cluster) -> None:
    """Every message of every queue is received once."""
    sqs = sqs_client(cluster.nodes[3].sqs)
    for name in QUEUES:
        url = sqs.get_queue_url(QueueName=name)["QueueUrl"]
        bodies: list[str] = []
        while len(bodies) < MESSAGES:
            got = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10, WaitTimeSeconds=20).get("Messages", [])
            assert got, f"{name} has {len(bodies)} of {MESSAGES} messages"
            bodies += [message["Body"] for message in got]
        assert sorted(bodies, key=int) == [str(number) for number in range(MESSAGES)], name


@pytest.mark.timeout(600)
def test_a_host_that_joins_takes_its_share_and_gives_it_back(spread: Cluster) -> None:
    cluster = spread
    _fill(cluster)
    load = Load(cluster, "joining", 1, fifo=True, placement="")
    load.start()
    before = _map(cluster)
    units = Counter(leader for _, leader in before.values())
    assert set(units) == set(NODES), "every host leads"

    cluster.nodes[JOINING] = cluster.make(JOINING)
    cluster.nodes[JOINING].start()
    assert _run(cluster, "add", str(JOINING))["done"]
    wait_until(lambda: _leaders(cluster).get(JOINING) == JOINING, "the group of the fourth host", cluster.log_tails)
    load.wait_for_more()
    _balance(cluster)
    load.wait_for_more()
    after = _map(cluster)
    moved = [place for place in after if after[place][0] != before[place][0]]
    share = len(after) // (len(NODES) + 1)
    assert {after[place] for place in moved} == {("host-4", JOINING)}, "only the share of the new host moves"
    assert share <= len(moved) <= share + 1
    leads = Counter(leader for _, leader in after.values())
    assert leads[JOINING] == len(moved)
    assert set(leads) == {*NODES, JOINING}

    assert _run(cluster, "drain", str(JOINING), "--wait")["done"]
    load.wait_for_more()
    _balance(cluster)
    load.wait_for_more()
    back = _map(cluster)
    assert set(back) == set(after)
    assert {group for group, _ in back.values()} == {"host-1", "host-2", "host-3"}
    assert Counter(leader for _, leader in back.values()).keys() == set(NODES)
    cluster.nodes.pop(JOINING).stop()
    load.wait_for_more()
    load.stop()
    load.check(2)
    _check_queues(cluster)

"""Queues without a placement in a real cluster: all hosts lead some of them, every node knows where they are, and any
host may die.
"""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path
from typing import Any

from longhall.coordination.ensemble import Ensemble
from soak.cluster import Cluster
from soak.node import COMMAND
from tests.cluster.load import sqs_client

QUEUES = 6
MESSAGES = 5
DYING = 2
WAIT_S = 90.0


def _run(cluster: Cluster, node: int, *words: str) -> Any:
    command = [*COMMAND, "cluster", *words, "--http", cluster.nodes[node].http, "-o", "json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, f"{done.stderr}\n{cluster.log_tails()}"
    return json.loads(done.stdout)


def _wait_for_groups(cluster: Cluster) -> None:
    ends_s = time.monotonic() + WAIT_S
    while time.monotonic() < ends_s:
        wings = _run(cluster, 1, "wing", "list")
        if [wing["leader"] for wing in wings] == [1, 2, 3] and all(wing["in_sync"] == "1, 2, 3" for wing in wings):
            return
        time.sleep(0.5)
    raise AssertionError(f"the groups of hosts are not led after {WAIT_S} s\n{cluster.log_tails()}")


def test_all_hosts_lead_queues_and_one_of_them_may_die(ensemble: Ensemble, tmp_path: Path) -> None:
    spread = {"default_placement": "spread"}
    cluster = Cluster(tmp_path, session_ms=3000, zookeeper=ensemble, path=f"/{tmp_path.name}", settings=spread)
    try:
        cluster.start()
        _wait_for_groups(cluster)
        clients = {number: sqs_client(node.sqs) for number, node in cluster.nodes.items()}
        urls = [clients[1 + at % 3].create_queue(QueueName=f"q{at}")["QueueUrl"] for at in range(QUEUES)]
        sent: set[str] = set()
        for at, url in enumerate(urls):
            for number in range(MESSAGES):
                answer = clients[1 + (at + 1) % 3].send_message(QueueUrl=url, MessageBody=str(number))
                sent.add(answer["MessageId"])

        rows = _run(cluster, 1, "map", "q")
        assert [row["name"] for row in rows] == [f"q{at}" for at in range(QUEUES)]
        assert {row["leader"] for row in rows} == {1, 2, 3}
        assert {(row["kind"], row["messages"]) for row in rows} == {("queue", MESSAGES)}
        assert _run(cluster, 3, "map", "q") == rows
        assert _run(cluster, 2, "balance", "--dry-run")["begun"] is False

        cluster.nodes[DYING].kill()
        received: list[str] = []
        for at in range(QUEUES):
            url = clients[3].get_queue_url(QueueName=f"q{at}")["QueueUrl"]
            ends_s = time.monotonic() + WAIT_S
            while len(received) < (at + 1) * MESSAGES:
                assert time.monotonic() < ends_s, f"{len(received)} of {len(sent)}\n{cluster.log_tails()}"
                answer = clients[3].receive_message(QueueUrl=url, MaxNumberOfMessages=10, WaitTimeSeconds=5)
                for message in answer.get("Messages", []):
                    received.append(message["MessageId"])
                    clients[3].delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
        assert sorted(received) == sorted(sent), "each came once"
    finally:
        cluster.stop()

"""Dead letters of real queues go to other replication groups while hosts die, each once, and come back."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import BotoCoreError, ClientError

from longhall.coordination.ensemble import Ensemble
from soak.cluster import Cluster
from tests.cluster.load import sqs_client

COUNT = 60
WAIT_S = 120


@pytest.fixture
def winged(ensemble: Ensemble, tmp_path: Path) -> Iterator[Cluster]:
    made = Cluster(tmp_path, session_ms=3000, zookeeper=ensemble, path=f"/{tmp_path.name}")
    try:
        made.start()
        yield made
    finally:
        made.stop()


class Queues:
    """The queues of the test, through any node that answers."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._clients = {number: sqs_client(node.sqs) for number, node in cluster.nodes.items()}

    def ask(self, verb: str, queue: str = "", **members: Any) -> Any:
        ends_s = time.monotonic() + WAIT_S
        turn = 0
        while True:
            turn += 1
            number = turn % len(self._clients) + 1
            try:
                client = self._clients[number]
                if queue:
                    members["QueueUrl"] = f"http://{self._cluster.nodes[number].sqs}/000000000000/{queue}"
                return getattr(client, verb)(**members)
            except (BotoCoreError, ClientError) as error:
                if time.monotonic() > ends_s:
                    raise AssertionError(f"{verb}: {error}\n{self._cluster.log_tails()}") from error
                time.sleep(0.2)

    def create(self, name: str, placement: str, letters: str = "") -> None:
        attributes = {"LonghallPlacement": placement}
        if letters:
            policy = {"deadLetterTargetArn": arn_of(letters), "maxReceiveCount": 1}
            attributes |= {"RedrivePolicy": json.dumps(policy), "VisibilityTimeout": "1"}
        self.ask("create_queue", QueueName=name, Attributes=attributes)

    def depth(self, name: str) -> int:
        names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
        found = self.ask("get_queue_attributes", name, AttributeNames=names)["Attributes"]
        return sum(int(found[one]) for one in names)

    def receive(self, name: str, settle: bool) -> list[str]:
        found = self.ask("receive_message", name, MaxNumberOfMessages=10, WaitTimeSeconds=0).get("Messages", [])
        for message in found:
            if settle:
                self.ask("delete_message", name, ReceiptHandle=message["ReceiptHandle"])
        return [message["Body"] for message in found]


def arn_of(queue: str) -> str:
    return f"arn:aws:sqs:us-east-1:000000000000:{queue}"


def break_hosts(cluster: Cluster, stop: threading.Event) -> None:
    """Kill one host after the other, each when all are in sync."""
    while not stop.is_set():
        for number in (2, 1, 3):
            if stop.wait(1.5):
                return
            cluster.nodes[number].kill()
            time.sleep(2)
            cluster.nodes[number].start()
            cluster.wait_in_sync()


def test_dead_letters_reach_other_groups_once_while_hosts_die_and_come_back(winged: Cluster) -> None:
    queues = Queues(winged)
    queues.create("dead-hall", "hall")
    queues.create("dead-parts", "parts")
    sources = {"near": "dead-hall", "far": "dead-parts"}
    for name, letters in sources.items():
        queues.create(name, "share", letters)
    for name in sources:
        for first in range(0, COUNT, 10):
            entries = [{"Id": str(n), "MessageBody": f"{name}-{n}"} for n in range(first, first + 10)]
            assert len(queues.ask("send_message_batch", name, Entries=entries)["Successful"]) == 10

    stop = threading.Event()
    breaker = threading.Thread(target=break_hosts, args=(winged, stop))
    breaker.start()
    try:
        ends_s = time.monotonic() + WAIT_S
        while any(queues.depth(letters) < COUNT for letters in sources.values()):
            assert time.monotonic() < ends_s, f"{[queues.depth(one) for one in sources.values()]}\n{winged.log_tails()}"
            for name in sources:
                queues.receive(name, settle=False)
            time.sleep(0.3)
    finally:
        stop.set()
        breaker.join()
    for letters in sources.values():
        assert queues.depth(letters) == COUNT, "each letter is there once"
        queues.ask("start_message_move_task", SourceArn=arn_of(letters))

    ends_s = time.monotonic() + WAIT_S
    back: Counter[str] = Counter()
    while len(back) < 2 * COUNT:
        assert time.monotonic() < ends_s, f"{len(back)} came back\n{winged.log_tails()}"
        for name in sources:
            back.update(queues.receive(name, settle=True))
        time.sleep(0.1)
    assert set(back) == {f"{name}-{n}" for name in sources for n in range(COUNT)}
    assert [queues.depth(name) for name in (*sources, *sources.values())] == [0, 0, 0, 0]

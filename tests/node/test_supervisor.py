"""`longhall serve --workers 2`: one node to its users, several processes to its machine. What dies comes back."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from prometheus_client.parser import text_string_to_metric_families

from soak.node import COMMAND, Node

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

CONNECTIONS_MAX = 200  # The system deals them out by chance: not one of so many at the other worker is not by chance.
READY_SECONDS_MAX = 90.0  # Three processes begin, on a machine that may be busy.
WAIT_SECONDS_MAX = 180.0
KEY = {"aws_access_key_id": "test", "aws_secret_access_key": "test", "region_name": "us-east-1"}


def until(holds: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while not holds():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


def lives(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


class Hall(Node):
    """A node with two workers."""

    def __init__(self, data: Path) -> None:
        super().__init__(data, options=["--workers", "2"])

    def start(self) -> None:
        self._doors["kafka"] = "127.0.0.1:0"  # The port that follows one which was free may be taken.
        self.launch()
        self.wait_ready(READY_SECONDS_MAX)

    def workers(self) -> list[dict[str, Any]]:
        """As the ready file has them now."""
        found: list[dict[str, Any]] = json.loads(self.ready_file.read_text())["workers"]
        return found

    def pids(self) -> list[int]:
        return [int(worker["pid"]) for worker in self.workers()]

    def kafka(self, worker: int) -> str:
        return str(self.workers()[worker - 1]["kafka"])

    def get(self, path: str) -> tuple[int, str]:
        """Over a connection of its own, which may reach either worker."""
        connection = http.client.HTTPConnection(self.http, timeout=20)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def sqs_client(self) -> Any:
        retries = {"mode": "standard", "total_max_attempts": 20}
        return boto3.client("sqs", endpoint_url=f"http://{self.sqs}", config=Config(retries=retries), **KEY)

    def end_worker(self, worker: int) -> None:
        """kill -9, and wait until another one has its place."""
        old = self.pids()[worker - 1]
        os.kill(old, signal.SIGKILL)
        until(lambda: self.pids()[worker - 1] != old, f"worker {worker} is started again")


@pytest.fixture(scope="module")
def hall(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hall]:
    with Hall(tmp_path_factory.mktemp("workers") / "data") as running:
        yield running
        pids = running.pids()
        assert running.stop() == 0  # Whatever the tests did to it.
        assert not any(map(lives, pids))
        assert not running.ready_file.exists()


def produce(bootstrap: str, topic: str, *values: str) -> None:
    """Each is acknowledged."""
    failures: list[Any] = []
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    for value in values:
        producer.produce(topic, value, callback=lambda error, _: failures.append(error) if error else None)
    assert producer.flush(WAIT_SECONDS_MAX) == 0
    assert failures == []


def consume(bootstrap: str, topic: str, count: int) -> list[str]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "g", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[Any] = []
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while len(found) < count and time.monotonic() < deadline:
        found += [message for message in consumer.consume(count - len(found), 1) if message.error() is None]
    consumer.close()
    return [message.value().decode() for message in found]


def test_each_worker_is_a_broker_and_either_is_good_to_begin_with(hall: Hall) -> None:
    told = json.loads(hall.ready_file.read_text())
    assert told["pid"] == hall.pid
    assert told["kafka"] == hall.kafka(1)
    assert [worker["worker"] for worker in told["workers"]] == [1, 2]
    assert len({hall.pid, *hall.pids()}) == 3
    for worker in (1, 2):
        brokers = AdminClient({"bootstrap.servers": hall.kafka(worker)}).list_topics(timeout=30).brokers
        assert {number: f"{at.host}:{at.port}" for number, at in brokers.items()} == {
            1: hall.kafka(1),
            2: hall.kafka(2),
        }
    produce(hall.kafka(2), "letters", "a", "b")
    produce(hall.kafka(1), "letters", "c")
    assert consume(hall.kafka(2), "letters", 3) == ["a", "b", "c"]


def test_the_other_doors_are_shared_and_it_does_not_matter_who_answers(hall: Hall) -> None:
    """Each process begins the ids of its answers in its own way: so one can tell who it was."""
    url = hall.sqs_client().create_queue(QueueName="jobs")["QueueUrl"]
    seen: dict[str, int] = {}
    for number in range(CONNECTIONS_MAX):
        sqs = hall.sqs_client()
        sent = sqs.send_message(QueueUrl=url, MessageBody=str(number))
        (message,) = sqs.receive_message(QueueUrl=url, WaitTimeSeconds=20)["Messages"]
        assert (message["Body"], message["MessageId"]) == (str(number), sent["MessageId"])
        sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
        who = sent["ResponseMetadata"]["RequestId"].rpartition("-")[0]
        seen[who] = seen.get(who, 0) + 1
        if len(seen) == 2 and min(seen.values()) >= 2:
            return
    raise AssertionError(f"only {seen} answered")


def test_what_is_shown_is_of_all_workers(hall: Hall) -> None:
    produce(hall.kafka(1), "counted", "x")
    for _ in range(8):
        status, text = hall.get("/metrics")
        assert status == 200
        workers: dict[str, set[str]] = {}
        for family in text_string_to_metric_families(text):
            assert family.name not in workers, "a family stands in one place"
            workers[family.name] = {sample.labels["worker"] for sample in family.samples}
        assert workers["process_resident_memory_bytes"] == {"1", "2"}
        assert workers["kafka_topic_partition_current_offset"] == {"1"}
        assert hall.get("/healthz") == (200, "ok\n")
        assert hall.get("/readyz") == (200, "ok\n")
        assert hall.get("/api/v1/queues")[0] == 200


def test_workers_that_are_killed_come_back_and_nothing_is_lost(hall: Hall) -> None:
    sqs = hall.sqs_client()
    url = sqs.create_queue(QueueName="kept")["QueueUrl"]
    kafka = [hall.kafka(1), hall.kafka(2)]
    for worker in (2, 1):
        produce(hall.kafka(2), "lasting", f"before {worker}")
        sqs.send_message(QueueUrl=url, MessageBody=f"before {worker}")
        hall.end_worker(worker)
        produce(hall.kafka(2), "lasting", f"after {worker}")
        sqs.send_message(QueueUrl=url, MessageBody=f"after {worker}")
        until(lambda: all(hall.get("/readyz")[0] == 200 for _ in range(8)), "both are ready again")
    said = ["before 2", "after 2", "before 1", "after 1"]
    assert consume(hall.kafka(2), "lasting", 4) == said
    found: set[str] = set()
    while len(found) < 4:
        messages = sqs.receive_message(QueueUrl=url, WaitTimeSeconds=20, MaxNumberOfMessages=10)["Messages"]
        found |= {message["Body"] for message in messages}
    assert found == set(said)
    assert [hall.kafka(1), hall.kafka(2)] == kafka
    assert hall.log_text().count("a worker has ended and is started again") == 2


def test_nobody_is_left_behind_by_a_parent_that_is_killed_and_a_lone_node_goes_on(tmp_path: Path) -> None:
    with Hall(tmp_path / "data") as hall:
        produce(hall.kafka(2), "kept", "one")
        pids = hall.pids()
        os.kill(hall.pid, signal.SIGKILL)
        until(lambda: not any(map(lives, pids)), "the workers stop by themselves")
    with Node(tmp_path / "data") as alone:
        assert consume(alone.bootstrap, "kept", 1) == ["one"]
        assert "workers" not in alone.ready


def test_what_is_taken_ends_all_of_them_and_is_named(hall: Hall, tmp_path: Path) -> None:
    doors = ("kafka", "sqs", "amqp", "stomp", "stomp-websocket", "management", "prometheus", "http")
    free = [word for door in doors for word in (f"--{door}", "127.0.0.1:0")]
    for name, words, said in (
        ("a", ["--sqs", hall.sqs], f"{hall.sqs} is taken"),
        ("b", ["--kafka", hall.kafka(1)], f"{hall.kafka(1)} is taken"),
        ("c", ["--data", str(hall.data)], f"process {hall.pid}"),
    ):
        command = [*COMMAND, "serve", "--workers", "2", "--data", str(tmp_path / name), *free, *words]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=WAIT_SECONDS_MAX)
        assert ended.returncode == 1
        assert said in ended.stderr
        assert ended.stdout == ""

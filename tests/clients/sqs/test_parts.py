"""A queue that grows as it fills and shrinks as it drains, while producers and consumers work with it."""

from __future__ import annotations

import json
import threading
import urllib.request
from collections.abc import Callable
from typing import Any

from confluent_kafka.admin import AdminClient

from soak.node import Node
from tests.clients.conftest import FreshName, eventually
from tests.left_out import leave_out

GROUPS = 6
SETTINGS = {
    "fifo": True,
    "deduplication": "content",
    "parts_max": 4,
    "messages_max": 400,
    "when_full": "wait",
    "shrink_after_ms": 300,
    "lease_ms": 600_000,
}


class Work:
    """What producers and consumers do, and what they saw."""

    def __init__(self, sqs: Any, url: str) -> None:
        self._sqs = sqs
        self._url = url
        self._lock = threading.Lock()
        self.enough = threading.Event()  # Producers stop, and consumers no longer hold themselves back.
        self.drained = threading.Event()
        self.sent: dict[str, int] = {}
        self.received: dict[str, list[int]] = {}
        self.failures: list[BaseException] = []

    def produce(self, producer: int) -> None:
        groups = [f"{producer}-{number}" for number in range(GROUPS)]
        number = 0
        while not self.enough.is_set():
            entries = [{"Id": group, "MessageBody": f"{group}:{number}", "MessageGroupId": group} for group in groups]
            answer = self._sqs.send_message_batch(QueueUrl=self._url, Entries=entries)
            assert not answer.get("Failed"), answer
            number += 1
        self.sent.update(dict.fromkeys(groups, number))

    def consume(self) -> None:
        while not self.drained.is_set():
            count = 10 if self.enough.is_set() else 1
            answer = self._sqs.receive_message(QueueUrl=self._url, MaxNumberOfMessages=count, WaitTimeSeconds=1)
            messages = answer.get("Messages", [])
            with self._lock:
                for message in messages:
                    group, _, number = message["Body"].partition(":")
                    self.received.setdefault(group, []).append(int(number))
            if messages:
                entries = [{"Id": str(at), "ReceiptHandle": one["ReceiptHandle"]} for at, one in enumerate(messages)]
                assert not self._sqs.delete_message_batch(QueueUrl=self._url, Entries=entries).get("Failed")

    def run(self, target: Callable[..., None], *arguments: Any) -> threading.Thread:
        def guarded() -> None:
            try:
                target(*arguments)
            except BaseException as failure:
                self.failures.append(failure)
                self.enough.set()

        thread = threading.Thread(target=guarded, daemon=True)
        thread.start()
        return thread

    def is_done(self) -> bool:
        with self._lock:
            return bool(self.failures) or sum(map(len, self.received.values())) >= sum(self.sent.values())


def test_it_grows_and_shrinks_under_producers_and_consumers(
    sqs: Any, kafka: str, hall: Node | None, fresh_name: FreshName
) -> None:
    if hall is None:
        leave_out("queues in parts are made by the HTTP API of a node of ours")
    name = fresh_name("parts") + ".fifo"
    api = f"http://{hall.http}/api/v1/queues"
    body = json.dumps({"name": name, "settings": SETTINGS}).encode()
    request = urllib.request.Request(api, body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request) as answer:
        assert answer.status == 201

    def parts() -> tuple[int, int]:
        with urllib.request.urlopen(f"{api}/{name}") as answer:
            depth = json.load(answer)["depth"]
        return depth["parts"], depth["parts_going"]

    def partitions() -> int:
        return len(AdminClient({"bootstrap.servers": kafka}).list_topics(name).topics[name].partitions)

    assert (parts(), partitions()) == ((1, 0), 1)
    work = Work(sqs, sqs.get_queue_url(QueueName=name)["QueueUrl"])
    producers = [work.run(work.produce, number) for number in range(2)]
    consumers = [work.run(work.consume) for _ in range(2)]
    eventually(lambda: bool(work.failures) or parts() == (4, 0), "the queue has all its parts")
    grown = partitions()
    work.enough.set()
    for thread in producers:
        thread.join()
    eventually(work.is_done, "everything is received")
    eventually(lambda: parts() == (1, 0), "the queue is as small as before")
    work.drained.set()
    for thread in consumers:
        thread.join()
    assert not work.failures
    assert grown == 4
    eventually(lambda: partitions() == 1, "Kafka clients see as many partitions")
    assert work.received == {group: list(range(count)) for group, count in work.sent.items()}

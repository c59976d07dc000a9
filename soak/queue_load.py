"""Senders and receivers of queues that work while their node dies and restarts: each reports to the book, and none
gives up.

All use boto3, as users do. A call without an answer, or with a 5xx answer, has an unknown outcome; an unexpected
refusal is a violation. Keys are `name-number` on standard queues, where each is sent once, and `group/number` on FIFO
queues, where a sender repeats a number until it is acknowledged, and at times repeats an old one on purpose.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Any, Final

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from soak.fates import Book, Delivery
from soak.load import Worker

PLAIN, ORDERED, POISON, DEAD, REVIVED = "plain", "ordered.fifo", "poison", "dead", "revived"
QUEUES: Final = (PLAIN, ORDERED, POISON, DEAD, REVIVED)
ATTEMPTS_MAX: Final = 3
LEASE_SECONDS: Final = 3
DELAY_SECONDS_MAX: Final = 3
GROUPS: Final = 5
PAUSE_SECONDS: Final = 0.01
_LATE: Final = {"InvalidParameterValue", "ReceiptHandleIsInvalid", "AWS.SimpleQueueService.MessageNotInflight"}


class Unanswered(Exception):
    """The call got no answer: its outcome is unknown."""


def new_client(endpoint: str) -> Any:
    return boto3.client(
        "sqs",
        endpoint_url=endpoint,
        region_name="us-east-1",
        aws_access_key_id="test",
        aws_secret_access_key="test",
        config=Config(retries={"total_max_attempts": 1}, connect_timeout=2, read_timeout=15),
    )


class QueueWorker(Worker):
    """A thread with a client of its own; the queue URLs stay valid through every restart."""

    pause_seconds = PAUSE_SECONDS

    def __init__(self, name: str, endpoint: str, urls: dict[str, str], book: Book) -> None:
        super().__init__(name, endpoint, None)  # type: ignore[arg-type]  # It keeps another kind of history.
        self.book = book
        self.urls = urls
        self.random = random.Random(name)
        self._client = new_client(endpoint)

    def call(self, action: str, **members: Any) -> Any:
        """The answer to a call. Raises Unanswered, or ClientError for a refusal."""
        try:
            return getattr(self._client, action)(**members)
        except BotoCoreError as problem:
            self.stopping.wait(0.05)
            raise Unanswered from problem
        except ClientError as refusal:
            if refusal.response["ResponseMetadata"].get("HTTPStatusCode", 500) >= 500:
                self.stopping.wait(0.05)
                raise Unanswered from refusal
            raise

    def run(self) -> None:
        while not self.stopping.is_set():
            try:
                self.step()
            except Unanswered:
                continue
            except ClientError as refusal:
                self.book.complain(f"{self.name} was refused: {refusal}")
                self.stopping.wait(0.5)

    def step(self) -> None:
        raise NotImplementedError

    def settle(self, queue: str, message: dict[str, Any], key: str) -> None:
        self.book.settling(queue, key)
        try:
            self.call("delete_message", QueueUrl=self.urls[queue], ReceiptHandle=message["ReceiptHandle"])
        except ClientError as refusal:
            if refusal.response["Error"]["Code"] not in _LATE:
                raise
        else:
            self.book.settled(queue, key, time.monotonic(), message["lease_until"])

    def receive(self, queue: str, count: int = 10, lease_seconds: float = LEASE_SECONDS) -> list[dict[str, Any]]:
        asked_at = time.monotonic()
        said = self.call(
            "receive_message",
            QueueUrl=self.urls[queue],
            MaxNumberOfMessages=count,
            WaitTimeSeconds=1,
            VisibilityTimeout=int(lease_seconds),
            MessageSystemAttributeNames=["ApproximateReceiveCount"],
        )
        arrived_at = time.monotonic()
        messages: list[dict[str, Any]] = said.get("Messages", [])
        answer = [
            Delivery(each["Body"], each["MessageId"], int(each["Attributes"]["ApproximateReceiveCount"]))
            for each in messages
        ]
        self.book.delivered(queue, answer, asked_at, arrived_at, lease_seconds)
        for message in messages:
            message["lease_until"] = asked_at + lease_seconds
        return messages


class Sender(QueueWorker):
    """Sends each key once: single messages, batches, some delayed."""

    queue = PLAIN
    delay_share = 0.2
    number = 0

    def step(self) -> None:
        count = self.random.choice((1, 1, 10))
        delay = self.random.randint(1, DELAY_SECONDS_MAX) if self.random.random() < self.delay_share else 0
        keys = []
        for _ in range(count):
            self.number += 1
            keys.append(f"{self.name}-{self.number}")
        asked_at = time.monotonic()
        for key in keys:
            self.book.sending(self.queue, key, asked_at, delay)
        url = self.urls[self.queue]
        if count == 1:
            said = self.call("send_message", QueueUrl=url, MessageBody=keys[0], DelaySeconds=delay)
            self.book.acknowledged(self.queue, keys[0], said["MessageId"])
        else:
            entries = [{"Id": str(n), "MessageBody": key, "DelaySeconds": delay} for n, key in enumerate(keys)]
            said = self.call("send_message_batch", QueueUrl=url, Entries=entries)
            for each in said.get("Successful", []):
                self.book.acknowledged(self.queue, keys[int(each["Id"])], each["MessageId"])
        self.stopping.wait(self.pause_seconds * count)


class PoisonSender(Sender):
    """Sends to the queue whose messages are never settled."""

    queue = POISON
    delay_share = 0.0

    def step(self) -> None:
        super().step()
        self.stopping.wait(0.1)


class OrderedSender(QueueWorker):
    """Sends numbers to its own groups; a number is repeated until it is acknowledged."""

    def __init__(self, name: str, endpoint: str, urls: dict[str, str], book: Book) -> None:
        super().__init__(name, endpoint, urls, book)
        self._last = [0] * GROUPS
        self._open = [False] * GROUPS

    def step(self) -> None:
        group = self.random.randrange(GROUPS)
        if not self._open[group]:
            self._last[group] += 1
            self._open[group] = True
        number = self._last[group]
        # At times an old number again: it was acknowledged before, so it must not be delivered a second time.
        if number > 1 and self.random.random() < 0.1:
            self._send(group, self.random.randint(max(1, number - 20), number - 1))
            return
        self._send(group, number)
        self._open[group] = False
        self.stopping.wait(self.pause_seconds)

    def _send(self, group: int, number: int) -> None:
        name = f"{self.name}.{group}"
        key = f"{name}/{number}"
        self.book.sending(ORDERED, key, time.monotonic())
        url = self.urls[ORDERED]
        said = self.call("send_message", QueueUrl=url, MessageBody=key, MessageGroupId=name, MessageDeduplicationId=key)
        self.book.acknowledged(ORDERED, key, said["MessageId"])


class Receiver(QueueWorker):
    """Settles most messages, gives some back, extends some leases and abandons some."""

    queue = PLAIN

    def step(self) -> None:
        for message in self.receive(self.queue, self.random.choice((1, 10))):
            key, choice = message["Body"], self.random.random()
            if choice < 0.8:
                self.settle(self.queue, message, key)
            elif choice < 0.9:
                self._change(message, key, 0)
            elif choice < 0.95:
                self._change(message, key, LEASE_SECONDS + 2)

    def _change(self, message: dict[str, Any], key: str, seconds: int) -> None:
        if seconds == 0:
            self.book.giving_back(self.queue, key)
        asked_at = time.monotonic()
        try:
            self.call(
                "change_message_visibility",
                QueueUrl=self.urls[self.queue],
                ReceiptHandle=message["ReceiptHandle"],
                VisibilityTimeout=seconds,
            )
        except ClientError as refusal:
            if refusal.response["Error"]["Code"] not in _LATE:
                raise
            return
        # The change is certain only if the old lease certainly held.
        if seconds and time.monotonic() < message["lease_until"]:
            self.book.extended(self.queue, key, asked_at + seconds)


class OrderedReceiver(Receiver):
    """The same on the FIFO queue; a whole answer is settled in its order or left to its lease."""

    queue = ORDERED

    def step(self) -> None:
        messages = self.receive(self.queue, self.random.choice((1, 3, 10)))
        if self.random.random() < 0.1:
            return
        for message in messages:
            self.settle(self.queue, message, message["Body"])


class RevivedReceiver(Receiver):
    """Settles redriven messages."""

    queue = REVIVED

    def step(self) -> None:
        for message in self.receive(self.queue):
            self.settle(self.queue, message, message["Body"])


class PoisonReceiver(QueueWorker):
    """Never settles. More deliveries than the queue allows are a violation."""

    def step(self) -> None:
        for message in self.receive(POISON, lease_seconds=1):
            key, count = message["Body"], int(message["Attributes"]["ApproximateReceiveCount"])
            if count > ATTEMPTS_MAX or self.book.fate(POISON, key).deliveries > ATTEMPTS_MAX:
                known = self.book.fate(POISON, key).deliveries
                self.book.complain(f"{POISON}: {key} was delivered {known} times (the node says {count})")
            if self.random.random() < 0.7:
                self.book.giving_back(POISON, key)
                how = {"QueueUrl": self.urls[POISON], "ReceiptHandle": message["ReceiptHandle"]}
                try:
                    self.call("change_message_visibility", **how, VisibilityTimeout=0)
                except ClientError as refusal:
                    if refusal.response["Error"]["Code"] not in _LATE:
                        raise


class Mover(QueueWorker):
    """Starts redrives of the dead letters, slow enough that kills fall into them; remembers the last one."""

    def __init__(self, name: str, endpoint: str, urls: dict[str, str], book: Book, arns: dict[str, str]) -> None:
        super().__init__(name, endpoint, urls, book)
        self._arns = arns
        self.started_ms: int | None = None

    def step(self) -> None:
        self.stopping.wait(0.5)
        tasks = self.tasks()
        if tasks and tasks[0]["Status"] in ("RUNNING", "CANCELLING"):
            return
        self.call(
            "start_message_move_task",
            SourceArn=self._arns[DEAD],
            DestinationArn=self._arns[REVIVED],
            MaxNumberOfMessagesPerSecond=20,
        )
        tasks = self.tasks()
        self.started_ms = tasks[0]["StartedTimestamp"] if tasks else None

    def tasks(self) -> list[dict[str, Any]]:
        said = self.call("list_message_move_tasks", SourceArn=self._arns[DEAD], MaxResults=10)
        found: list[dict[str, Any]] = said.get("Results", [])
        return found


def workers(endpoint: str, urls: dict[str, str], arns: dict[str, str], book: Book) -> tuple[list[QueueWorker], Mover]:
    kinds: list[tuple[str, Callable[[str, str, dict[str, str], Book], QueueWorker]]] = [
        ("s1", Sender),
        ("s2", Sender),
        ("r1", Receiver),
        ("r2", Receiver),
        ("o1", OrderedSender),
        ("o2", OrderedSender),
        ("q1", OrderedReceiver),
        ("q2", OrderedReceiver),
        ("p1", PoisonSender),
        ("p2", PoisonReceiver),
        ("v1", RevivedReceiver),
    ]
    mover = Mover("m1", endpoint, urls, book, arns)
    return [*(kind(name, endpoint, urls, book) for name, kind in kinds), mover], mover

"""Clients that continue through every fault and record what was acknowledged; then the final checks.

Kafka: one idempotent producer with acks=all. SQS: one sender through the given node, which repeats each request until
it is answered. What was acknowledged must be stored at the end: once and at its offset for Kafka, once for a FIFO queue
of SQS, and at least once for a standard one.
"""

from __future__ import annotations

import threading
import time
from typing import Any

import boto3
import botocore.exceptions
from botocore.config import Config
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from soak.cluster import Cluster

PARTITIONS = 3
WAIT_SECONDS = 60.0
PACE_SECONDS = 0.004
GROUPS = 5


def sqs_client(address: str) -> Any:
    """boto3 with its defaults, except for shorter pauses between tries."""
    return boto3.client(
        "sqs",
        endpoint_url=f"http://{address}",
        region_name="us-east-1",
        aws_access_key_id="key",
        aws_secret_access_key="secret",
        config=Config(retries={"max_attempts": 5, "mode": "standard"}, read_timeout=45),
    )


class Load:
    """Runs between `start` and `stop`. Times are of `time.monotonic`."""

    def __init__(
        self, cluster: Cluster, name: str, sqs_node: int, *, fifo: bool = False, placement: str = "hall"
    ) -> None:
        self.name = name
        self.placement = placement
        self.fifo = fifo
        self.queue = f"{name}-queue.fifo" if fifo else f"{name}-queue"
        self.delivered: dict[int, tuple[int, int]] = {}  # Number -> partition and offset, as acknowledged.
        self.kafka_moments: list[float] = []
        self.sent: set[int] = set()
        self.sqs_moments: list[float] = []
        self.failures: list[str] = []
        self.misses: list[str] = []  # SQS requests that had to be repeated, by the client library or here.
        self.refusals: list[str] = []  # SQS errors that say a repetition would not help.
        self._cluster = cluster
        self._bootstrap = cluster.bootstrap
        self._sqs = sqs_client(cluster.nodes[sqs_node].sqs)
        self._over = threading.Event()
        self._threads: list[threading.Thread] = []

    def start(self) -> None:
        admin = AdminClient({"bootstrap.servers": self._bootstrap})
        config = {"longhall.placement": self.placement} if self.placement else {}  # Else the cluster chooses.
        topic = NewTopic(self.name, PARTITIONS, 3, config=config)
        admin.create_topics([topic], request_timeout=WAIT_SECONDS)[self.name].result(WAIT_SECONDS)
        attributes = {"LonghallPlacement": self.placement} if self.placement else {}
        if self.fifo:
            attributes |= {"FifoQueue": "true", "DeduplicationScope": "messageGroup"}
        self._sqs.create_queue(QueueName=self.queue, Attributes=attributes)
        self._threads = [threading.Thread(target=work, daemon=True) for work in (self._produce, self._send)]
        for thread in self._threads:
            thread.start()
        self.wait_for_more()

    def wait_for_more(self) -> None:
        """Wait until both kinds of clients have had an acknowledgement from now on."""
        now = time.monotonic()
        deadline = now + WAIT_SECONDS
        while not (self.first_after(now)[0] and self.first_after(now)[1]):
            assert time.monotonic() < deadline, f"no client is answered\n{self._cluster.log_tails()}"
            time.sleep(0.02)

    def first_after(self, moment: float) -> tuple[float, float]:
        """How long after a time each kind was first answered; 0 if not yet."""
        return (_first(self.kafka_moments, moment), _first(self.sqs_moments, moment))

    def stop(self) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join(WAIT_SECONDS)
            assert not thread.is_alive(), "a client hangs"

    def _produce(self) -> None:
        # The client gives up a paused leader after its own time-out, by default a minute.
        patience = {"socket.timeout.ms": 4000, "request.timeout.ms": 3000, "message.timeout.ms": 60_000}
        settings = {"enable.idempotence": True, "acks": "all", "linger.ms": 2, **patience}
        producer = Producer({"bootstrap.servers": self._bootstrap, **settings})
        number = 0
        while not self._over.is_set():
            producer.produce(self.name, str(number), on_delivery=self._told)
            number += 1
            producer.poll(0)
            time.sleep(PACE_SECONDS)
        if producer.flush(WAIT_SECONDS):
            self.failures.append("not everything was answered")

    def _told(self, error: Any, message: Any) -> None:
        if error is not None:
            self.failures.append(str(error))
            return
        self.delivered[int(message.value())] = (message.partition(), message.offset())
        self.kafka_moments.append(time.monotonic())

    def _send(self) -> None:
        url = self._sqs.get_queue_url(QueueName=self.queue)["QueueUrl"]
        number = 0
        while not self._over.is_set():
            try:
                told = self._sqs.send_message(QueueUrl=url, MessageBody=str(number), **self._line(number))
                if told["ResponseMetadata"]["RetryAttempts"]:
                    self.misses.append(f"message {number} was stored again")
            except botocore.exceptions.BotoCoreError as failure:
                self.misses.append(str(failure))
                continue  # No answer: repeat the same request.
            except botocore.exceptions.ClientError as refusal:
                self.misses.append(str(refusal))
                if refusal.response["ResponseMetadata"]["HTTPStatusCode"] < 500:
                    self.refusals.append(str(refusal))
                continue
            self.sent.add(number)
            self.sqs_moments.append(time.monotonic())
            number += 1
            time.sleep(PACE_SECONDS)

    def _line(self, number: int) -> dict[str, str]:
        """The group and the deduplication id of a message of a FIFO queue."""
        names = {"MessageGroupId": str(number % GROUPS), "MessageDeduplicationId": str(number)}
        return names if self.fifo else {}

    # The final checks.

    def check(self, sqs_node: int) -> None:
        """Check that nothing acknowledged is lost, duplicated or at another offset."""
        assert self.failures == []
        found = self._read_topic()
        assert len(found) == len({number for number, _ in found}), "a message of an idempotent producer is stored twice"
        places = dict(found)
        lost = [number for number in self.delivered if number not in places]
        assert lost == [], f"{len(lost)} acknowledged messages are lost\n{self._cluster.log_tails()}"
        assert all(places[number] == place for number, place in self.delivered.items())
        received = self._read_queue(sqs_node)
        lacking = self.sent.difference(received)
        assert not lacking, f"{len(lacking)} lost\n{self._cluster.log_tails()}"
        for group in range(GROUPS) if self.fifo else ():
            line = [number for number in received if number % GROUPS == group]
            assert line == sorted(set(line)), f"group {group} is out of order, or has a message twice: {line}"

    def _read_topic(self) -> list[tuple[int, tuple[int, int]]]:
        consumer = Consumer({"bootstrap.servers": self._bootstrap, "group.id": self.name, "enable.auto.commit": False})
        parts = [TopicPartition(self.name, number, 0) for number in range(PARTITIONS)]
        ends = {part.partition: consumer.get_watermark_offsets(part, timeout=WAIT_SECONDS)[1] for part in parts}
        consumer.assign(parts)
        left = {number for number, end in ends.items() if end > 0}
        found: list[tuple[int, tuple[int, int]]] = []
        deadline = time.monotonic() + WAIT_SECONDS
        while left:
            assert time.monotonic() < deadline, "the topic cannot be read to its end"
            batch: list[Any] = consumer.consume(500, 0.5)
            for message in batch:
                if message.error() is None:
                    found.append((int(message.value()), (message.partition(), message.offset())))
                    if message.offset() + 1 >= ends[message.partition()]:
                        left.discard(message.partition())
        consumer.close()
        return found

    def _read_queue(self, node: int) -> list[int]:
        sqs = sqs_client(self._cluster.nodes[node].sqs)
        url = sqs.get_queue_url(QueueName=self.queue)["QueueUrl"]
        received: list[int] = []
        while messages := sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10, WaitTimeSeconds=1).get("Messages"):
            received += [int(message["Body"]) for message in messages]
            entries = [{"Id": str(at), "ReceiptHandle": m["ReceiptHandle"]} for at, m in enumerate(messages)]
            sqs.delete_message_batch(QueueUrl=url, Entries=entries)
        return received


def _first(moments: list[float], moment: float) -> float:
    return next((one - moment for one in moments[-2000:] if one > moment), 0.0)

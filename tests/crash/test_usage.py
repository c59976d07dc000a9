"""kill -9 while clients of two doors send and settle: the sums of the usage topic are what the clients counted."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError
from confluent_kafka import Consumer, Producer, TopicPartition

from soak.node import Node
from tests.node.test_usage import read, sums_of

ROUNDS = 2
LOAD_S = 2.0
ERRORS = (BotoCoreError, ClientError)


def _client(address: str) -> Any:
    config = Config(retries={"max_attempts": 1}, connect_timeout=2, read_timeout=10)
    words = {"region_name": "us-east-1", "aws_access_key_id": "x", "aws_secret_access_key": "x"}
    return boto3.client("sqs", endpoint_url=f"http://{address}", config=config, **words)


class _Consumer:
    """Receives and deletes until everything is settled; a message is one, however often it came."""

    def __init__(self, sqs: Any, url: str) -> None:
        self.seen: dict[str, int] = {}  # By message id: the bytes of its body.
        self.receives: Counter[str] = Counter()  # The highest receive count of each, as the broker told it.
        self._sqs = sqs
        self._url = url

    def take(self) -> int:
        found = self._sqs.receive_message(
            QueueUrl=self._url,
            MaxNumberOfMessages=10,
            VisibilityTimeout=2,
            AttributeNames=["ApproximateReceiveCount"],
        ).get("Messages", [])
        for message in found:
            key = message["MessageId"]
            self.seen[key] = len(message["Body"].encode())
            self.receives[key] = max(self.receives[key], int(message["Attributes"]["ApproximateReceiveCount"]))
            self._sqs.delete_message(QueueUrl=self._url, ReceiptHandle=message["ReceiptHandle"])
        return len(found)


def _send(sqs: Any, url: str, stop: threading.Event) -> None:
    number = 0
    while not stop.is_set():
        number += 1
        entries = [{"Id": str(at), "MessageBody": "x" * (number % 50 + at + 1)} for at in range(10)]
        with contextlib.suppress(*ERRORS):
            sqs.send_message_batch(QueueUrl=url, Entries=entries)


def _consume(consumer: _Consumer, stop: threading.Event) -> None:
    while not stop.is_set():
        with contextlib.suppress(*ERRORS):
            consumer.take()


def _drain(consumer: _Consumer) -> None:
    """Take everything that is left, also what a killed node had leased."""
    idle_since = time.monotonic()
    while time.monotonic() - idle_since < 6:
        if consumer.take():
            idle_since = time.monotonic()
        else:
            time.sleep(0.2)


@pytest.mark.timeout(300)
def test_kills_lose_no_usage_and_count_none_twice(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    with Node(tmp_path / "data", options=["--set", "usage=true"], doors={"sqs": address}) as node:
        sqs = _client(address)
        url = sqs.create_queue(QueueName="orders")["QueueUrl"]
        consumer = _Consumer(_client(address), url)
        producer = Producer({"bootstrap.servers": node.bootstrap, "enable.idempotence": True, "linger.ms": 1})
        produced = 0
        for _ in range(ROUNDS):
            stop = threading.Event()
            clients = [
                threading.Thread(target=_send, args=(sqs, url, stop)),
                threading.Thread(target=_consume, args=(consumer, stop)),
            ]
            for client in clients:
                client.start()
            ends = time.monotonic() + LOAD_S
            while time.monotonic() < ends:
                producer.produce("events", b"v" * 100, partition=0)
                produced += 1
                producer.poll(0.001)
            node.kill()
            stop.set()
            for client in clients:
                client.join()
            node.start()
        assert producer.flush(60) == 0
        _drain(consumer)
        node.stop()
        node.start()
        watcher = Consumer({"bootstrap.servers": node.bootstrap, "group.id": "watcher"})
        _, stored = watcher.get_watermark_offsets(TopicPartition("events", 0), timeout=10)
        watcher.close()
        records = read(node.bootstrap)
    sums = sums_of(records)
    assert len({record["id"] for record in records}) == len(records)
    assert sums["kafka", "events", "messages_sent"] == stored == produced
    assert len(consumer.seen) > 0
    assert sums["sqs", "orders", "messages_sent"] == len(consumer.seen)
    assert sums["sqs", "orders", "bytes_sent"] == sum(consumer.seen.values())
    assert sums["sqs", "orders", "messages_settled"] == len(consumer.seen)
    assert sums["sqs", "orders", "messages_delivered"] == sum(consumer.receives.values())

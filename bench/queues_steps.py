"""Sizes and steps that the parts of the queue bench share."""

from __future__ import annotations

import time
from dataclasses import dataclass

from bench.load import generator, sqs
from bench.measure import process
from bench.peers.node import Node
from bench.peers.question import Refused, ask
from bench.peers.sqs import LonghallQueues

BODY_BYTES = 100
CONNECTIONS = 32
_RESTART_SECONDS_MAX = 300.0
_SETTLES_SECONDS = 3.0  # Time in which the housekeeper has run and its helper process has started.

Figures = dict[str, float]


@dataclass(frozen=True)
class Sizes:
    """The sizes of all parts; the quick ones only show that the bench works."""

    waiting: int = 10_000_000
    few: int = 1000
    groups: int = 1_000_000
    idle_queues: int = 10_000
    timed: int = 1_000_000
    timed_seconds: int = 60
    repeats: int = 50
    months: int = 100_000  # Messages that are delayed by three months.
    straggler_seconds: int = 3600


QUICK = Sizes(
    waiting=200_000,
    groups=20_000,
    idle_queues=500,
    timed=50_000,
    timed_seconds=5,
    repeats=5,
    months=2000,
    straggler_seconds=60,
)


def create(node: Node, name: str, attributes: dict[str, str]) -> str:
    return str(ask(node.address, "CreateQueue", QueueName=name, Attributes=attributes)["QueueUrl"])


def depth_of(node: Node, url: str) -> int:
    said = ask(node.address, "GetQueueAttributes", QueueUrl=url, AttributeNames=["ApproximateNumberOfMessages"])
    return int(said["Attributes"]["ApproximateNumberOfMessages"])


def fill_plain(node: LonghallQueues, name: str, count: int) -> int:
    return generator.fill(node.kafka, name, partitions=1, size_bytes=BODY_BYTES, count=count).messages


def fill_groups(node: LonghallQueues, count: int) -> int:
    url = str(ask(node.address, "GetQueueUrl", QueueName="deep.fifo")["QueueUrl"])
    run = sqs.run(
        "send", node.address, [url], batch=10, size=BODY_BYTES, count=count, groups=count, seconds=600, connections=64
    )
    return run.messages


def resident(node: Node) -> int:
    return process.memory(node.pid).resident_bytes


def settled_bytes(node: Node, url: str, *, fifo: bool) -> int:
    """The memory of a node with empty queues, after all its background tasks have run."""
    groups = {"groups": 10} if fifo else {}
    sqs.run("send", node.address, [url], batch=10, size=BODY_BYTES, count=100, seconds=60, **groups)
    sqs.run("drain", node.address, [url], batch=10, count=100, seconds=60, wait=1)
    time.sleep(_SETTLES_SECONDS)
    return resident(node)


def restart(node: Node, queue: str) -> float:
    """Start a stopped node; the seconds until it knows that queue and delivers one of its messages, if it has any."""
    began = time.monotonic()
    node.start()
    while True:
        try:
            url = ask(node.address, "GetQueueUrl", QueueName=queue)["QueueUrl"]
            ask(node.address, "ReceiveMessage", QueueUrl=url)
            return time.monotonic() - began
        except (OSError, Refused):
            if time.monotonic() - began > _RESTART_SECONDS_MAX:
                raise
            time.sleep(0.02)


def fill_by_door(node: LonghallQueues, name: str, count: int) -> int:
    """Fill a queue through the SQS door, for attributes that the queue sets on each sent message."""
    url = str(ask(node.address, "GetQueueUrl", QueueName=name)["QueueUrl"])
    run = sqs.run("send", node.address, [url], batch=10, size=BODY_BYTES, count=count, seconds=1200, connections=64)
    return run.messages

"""A queue that is filled and drained for an hour while one message is never settled: is its space freed?

Each round fills the queue through the Kafka door and drains it through the SQS door. The size of the logs on disk is
read after every round: everything but the one message should be freed.
"""

from __future__ import annotations

import time
from pathlib import Path

from bench.load import generator, sqs
from bench.peers.question import ask
from bench.peers.sqs import LonghallQueues

_BODY_BYTES = 1000
_ROUND = 50_000
_ROUND_SECONDS = 20.0  # Long enough that a busy machine keeps up for the whole hour.
_DRAIN_SECONDS = 60.0
_LEASE_SECONDS = 43_200  # The maximum of SQS.
_SETTLED_SECONDS = 150.0  # By then the space of everything settled before must be free.


def straggler(seconds: float) -> dict[str, float]:
    """Fill and drain for so many seconds; returns the bytes that passed, and the largest and last size on disk."""
    with LonghallQueues() as node:
        url = str(ask(node.address, "CreateQueue", QueueName="passed", Attributes={})["QueueUrl"])
        ask(node.address, "SendMessage", QueueUrl=url, MessageBody="never settled")
        ask(node.address, "ReceiveMessage", QueueUrl=url, VisibilityTimeout=_LEASE_SECONDS)
        began = time.monotonic()
        passed = rounds = most = 0
        while time.monotonic() - began < seconds:
            next_s = time.monotonic() + _ROUND_SECONDS
            generator.fill(node.kafka, "passed", partitions=1, size_bytes=_BODY_BYTES, count=_ROUND)
            while (waiting := _count(node, url, "ApproximateNumberOfMessages")) > 0:
                options = {"seconds": _DRAIN_SECONDS, "connections": 32, "wait": 1}
                passed += sqs.run("drain", node.address, [url], batch=10, count=waiting, **options).messages
            rounds += 1
            most = max(most, _stored_bytes(node.directory))
            time.sleep(max(0.0, next_s - time.monotonic()))
        time.sleep(_SETTLED_SECONDS)
        assert _count(node, url, "ApproximateNumberOfMessages") == 0
        assert _count(node, url, "ApproximateNumberOfMessagesNotVisible") == 1
        return {
            "seconds": time.monotonic() - began,
            "messages": passed,
            "passed_mb": passed * _BODY_BYTES / 1e6,
            "most_mb": most / 1e6,
            "kept_mb": _stored_bytes(node.directory) / 1e6,
            "kept_files": len(_stored(node.directory)),
        }


def _count(node: LonghallQueues, url: str, name: str) -> int:
    return int(ask(node.address, "GetQueueAttributes", QueueUrl=url, AttributeNames=[name])["Attributes"][name])


def _stored(directory: Path) -> list[Path]:
    return [path for path in directory.rglob("partitions/*/*") if path.is_file()]


def _stored_bytes(directory: Path) -> int:
    """The size of the logs; a file may vanish during the count."""
    size = 0
    for path in _stored(directory):
        try:
            size += path.stat().st_blocks * 512
        except FileNotFoundError:
            continue
    return size

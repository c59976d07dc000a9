"""A queue that is filled and drained for an hour while one message is never settled: does it keep the disk?

Each round fills the queue through the Kafka door and drains it through the SQS door. What the logs take on disk is read
after every round; without the one message all of it would come back, and with it all but that message should.
"""

from __future__ import annotations

import time
from pathlib import Path

from bench.load import generator, sqs
from bench.peers.question import ask
from bench.peers.sqs import LonghallQueues

_BODY_BYTES = 1000
_ROUND = 50_000
_ROUND_SECONDS = 20.0  # So that a machine which does other things meanwhile keeps up for the whole hour.
_DRAIN_SECONDS = 60.0
_LEASE_SECONDS = 43_200  # As long as SQS allows.
_SETTLED_SECONDS = 150.0  # By then everything that was settled before must have given its space back.


def straggler(seconds: float) -> dict[str, float]:
    """Fill and drain for so long; what passed, and what the disk held most and in the end."""
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
    """What the logs take; one may go while they are counted."""
    size = 0
    for path in _stored(directory):
        try:
            size += path.stat().st_blocks * 512
        except FileNotFoundError:
            continue
    return size

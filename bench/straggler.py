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
            generator.fill(node.kafka, "passed", partitions=1, size_bytes=_BODY_BYTES, count=_ROUND)
            run = sqs.run("drain", node.address, [url], batch=10, count=_ROUND, seconds=120, connections=32, wait=1)
            passed += run.messages
            rounds += 1
            most = max(most, _stored_bytes(node.directory))
        time.sleep(_SETTLED_SECONDS)
        names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
        said = ask(node.address, "GetQueueAttributes", QueueUrl=url, AttributeNames=names)["Attributes"]
        assert [int(said[name]) for name in names] == [0, 1], f"the queue says {said}"
        return {
            "seconds": time.monotonic() - began,
            "messages": passed,
            "passed_mb": passed * _BODY_BYTES / 1e6,
            "most_mb": most / 1e6,
            "kept_mb": _stored_bytes(node.directory) / 1e6,
            "kept_files": len(_stored(node.directory)),
        }


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

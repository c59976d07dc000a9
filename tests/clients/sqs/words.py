"""Helpers for tests of the SQS door: receive so many messages, or none."""

from __future__ import annotations

import json
import time
from typing import Any

WAIT_SECONDS = 30.0


def send(client: Any, url: str, *bodies: str, **how: Any) -> list[dict[str, Any]]:
    return [client.send_message(QueueUrl=url, MessageBody=body, **how) for body in bodies]


def receive(client: Any, url: str, count: int = 1, seconds_max: float = WAIT_SECONDS, **how: Any) -> list[Any]:
    """Receive until `count` messages are there, or fail with those that came. Nothing is deleted."""
    got: list[Any] = []
    deadline = time.monotonic() + seconds_max
    while len(got) < count:
        assert time.monotonic() < deadline, f"only {len(got)} of {count} came: {[m['Body'][:40] for m in got]}"
        asked = {"MaxNumberOfMessages": min(10, count - len(got)), "WaitTimeSeconds": 1, **how}
        got += client.receive_message(QueueUrl=url, **asked).get("Messages", [])
    return got


def nothing_comes(client: Any, url: str, **how: Any) -> bool:
    """Whether a receive that waits a second comes back empty."""
    return not client.receive_message(QueueUrl=url, **{"WaitTimeSeconds": 1, **how}).get("Messages")


def bodies(messages: list[Any]) -> list[str]:
    return [message["Body"] for message in messages]


def attribute(client: Any, url: str, name: str) -> str:
    return str(client.get_queue_attributes(QueueUrl=url, AttributeNames=[name])["Attributes"][name])


def arn(client: Any, url: str) -> str:
    return attribute(client, url, "QueueArn")


def redrive(client: Any, dead_letters: str, count_max: int) -> str:
    """A RedrivePolicy to that queue."""
    return json.dumps({"deadLetterTargetArn": arn(client, dead_letters), "maxReceiveCount": count_max})


def delete(client: Any, url: str, messages: list[Any]) -> None:
    for message in messages:
        client.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])

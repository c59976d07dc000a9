"""Short ways to say what tests of the SQS door say often: this is refused so, receive so many, nothing comes."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError

WAIT_SECONDS = 30.0
NO_QUEUE = "AWS.SimpleQueueService.NonExistentQueue"


@contextlib.contextmanager
def refused(client: Any, code: str, shape: str = "", status: int = 400) -> Iterator[None]:
    """The block must be refused with this code, as this exception class where the service has one, and this status."""
    with pytest.raises(ClientError) as caught:
        yield
    error = caught.value
    assert error.response["Error"]["Code"] == code, error
    assert error.response["ResponseMetadata"]["HTTPStatusCode"] == status
    if shape:
        assert isinstance(error, getattr(client.exceptions, shape)), type(error)
    assert error.response["Error"]["Message"]


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

"""The AWS command line, as scripts use it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.clients.conftest import FreshName

Aws = Callable[..., Any]
RUN_SECONDS_MAX = 60


class Refused(Exception):
    """What the command line printed when it ended with an error."""


@pytest.fixture(scope="module")
def aws(either_endpoint: str, tmp_path_factory: pytest.TempPathFactory) -> Aws:
    home = tmp_path_factory.mktemp("aws")
    program = str(Path(sys.executable).with_name("aws"))
    command = [program, "--endpoint-url", either_endpoint, "--region", "us-east-1", "sqs"]
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("AWS_")},
        "HOME": str(home),
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_PAGER": "",
        "AWS_MAX_ATTEMPTS": "1",
    }

    def run(*words: str) -> Any:
        done = subprocess.run(
            [*command, *words, "--output", "json"],
            env=environment,
            capture_output=True,
            text=True,
            timeout=RUN_SECONDS_MAX,
            check=False,
        )
        if done.returncode != 0:
            raise Refused(done.stderr)
        return json.loads(done.stdout) if done.stdout.strip() else None

    return run


def test_a_script(aws: Aws, fresh_name: FreshName) -> None:
    name = fresh_name("cli")
    url = aws("create-queue", "--queue-name", name, "--attributes", "VisibilityTimeout=40")["QueueUrl"]
    assert aws("get-queue-url", "--queue-name", name)["QueueUrl"] == url
    attributes = '{"n": {"DataType": "Number", "StringValue": "1"}}'
    sent = aws("send-message", "--queue-url", url, "--message-body", "hi", "--message-attributes", attributes)
    got = aws("receive-message", "--queue-url", url, "--wait-time-seconds", "2", "--message-attribute-names", "All")
    (message,) = got["Messages"]
    assert message["MessageId"] == sent["MessageId"]
    assert message["MessageAttributes"]["n"]["StringValue"] == "1"
    said = aws("get-queue-attributes", "--queue-url", url, "--attribute-names", "All")["Attributes"]
    assert (said["VisibilityTimeout"], said["ApproximateNumberOfMessagesNotVisible"]) == ("40", "1")
    aws("delete-message", "--queue-url", url, "--receipt-handle", message["ReceiptHandle"])
    aws("purge-queue", "--queue-url", url)
    aws("delete-queue", "--queue-url", url)


def test_batches_and_lists(aws: Aws, fresh_name: FreshName) -> None:
    name = fresh_name("cli")
    url = aws("create-queue", "--queue-name", name)["QueueUrl"]
    entries = json.dumps([{"Id": str(n), "MessageBody": str(n)} for n in range(3)])
    assert len(aws("send-message-batch", "--queue-url", url, "--entries", entries)["Successful"]) == 3
    assert aws("list-queues", "--queue-name-prefix", name)["QueueUrls"] == [url]


def test_an_error_is_told_by_its_code(aws: Aws, fresh_name: FreshName) -> None:
    with pytest.raises(Refused, match=r"AWS\.SimpleQueueService\.NonExistentQueue"):
        aws("get-queue-url", "--queue-name", fresh_name("absent"))

"""Data directories of earlier versions, unchanged: this version reads all of them.

`format-1-stopped` was stopped cleanly, `format-1-killed` by SIGKILL. Both have: topic "letters" with the values a, b, c
and the header kind=old on each, of which group "readers" has committed offset 2; topic "ledger" with one committed
("paid") and one aborted ("never") transaction; and queue "jobs" with "first" settled and "second" waiting. Never create
them again: a change that cannot read them needs a new format and a migration.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import boto3
import pytest
from confluent_kafka import Consumer, TopicPartition

from soak.node import Node
from tests.clients.librdkafka import read_all

pytestmark = pytest.mark.slow
HERE = Path(__file__).parent


@pytest.mark.timeout(120)
@pytest.mark.parametrize("name", ["format-1-stopped", "format-1-killed"])
def test_an_old_directory_is_read(name: str, tmp_path: Path) -> None:
    shutil.unpack_archive(HERE / f"{name}.tar.gz", tmp_path)
    with Node(tmp_path / "data", options=["--sqs", "127.0.0.1:0"]) as node:
        letters = read_all(node.bootstrap, "letters")
        assert [message.value() for message in letters] == [b"a", b"b", b"c"]
        assert all(message.headers() == [("kind", b"old")] for message in letters)
        assert [message.value() for message in read_all(node.bootstrap, "ledger")] == [b"paid"]
        reader = Consumer({"bootstrap.servers": node.bootstrap, "group.id": "readers"})
        assert reader.committed([TopicPartition("letters", 0)], timeout=20)[0].offset == 2
        reader.close()
        assert _waiting(node) == ["second"]


def _waiting(node: Node) -> list[str]:
    endpoint = f"http://{json.loads(node.ready_file.read_text())['sqs']}"
    sqs = boto3.client(
        "sqs", endpoint_url=endpoint, region_name="us-east-1", aws_access_key_id="any", aws_secret_access_key="any"
    )
    url = sqs.get_queue_url(QueueName="jobs")["QueueUrl"]
    found = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10, WaitTimeSeconds=2).get("Messages", [])
    return [message["Body"] for message in found]

"""Dead letters of a sealed queue in a queue that is not sealed: every door opens them, or refuses without a key."""

from __future__ import annotations

import json
import secrets
import urllib.error
from collections.abc import Iterator
from typing import Any, NamedTuple

import pika
import pytest
from botocore.exceptions import ClientError

from soak.node import Node
from tests.clients.conftest import eventually
from tests.clients.sealed.conftest import sqs_at, write_keys
from tests.clients.sealed.test_doors import consume, http

SEALED = {"KmsMasterKeyId": "alias/orders"}
CLEAR_LETTER = "a letter in clear"


class Buried(NamedTuple):
    """A node, its options with keys, and the body of a dead letter in its clear queue `dead`."""

    node: Node
    options: list[str]
    body: str

    def restart(self, *, with_keys: bool) -> None:
        self.node.stop()
        self.node.options = self.options if with_keys else []
        self.node.start()

    @property
    def url(self) -> str:
        return f"http://{self.node.sqs}/000000000000/dead"


@pytest.fixture(scope="module")
def buried(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Buried]:
    home = tmp_path_factory.mktemp("letters")
    options = ["--keys", str(write_keys(home))]
    body = f"mortal {secrets.token_hex(24)}"
    with Node(home / "data", options=options) as node:
        sqs = sqs_at(node)
        dead = sqs.create_queue(QueueName="dead")["QueueUrl"]
        policy = json.dumps({"deadLetterTargetArn": "arn:aws:sqs:us-east-1:000000000000:dead", "maxReceiveCount": 1})
        attributes = {**SEALED, "RedrivePolicy": policy, "VisibilityTimeout": "0"}
        url = sqs.create_queue(QueueName="dying", Attributes=attributes)["QueueUrl"]
        sqs.send_message(QueueUrl=url, MessageBody=body)
        assert sqs.receive_message(QueueUrl=url)["Messages"]

        def is_dead() -> bool:
            sqs.receive_message(QueueUrl=url)
            return bool(http(node, "GET", "/api/v1/queues/dead/letters")["letters"])

        eventually(is_dead, "the message is a dead letter")
        sqs.send_message(QueueUrl=dead, MessageBody=CLEAR_LETTER)
        yield Buried(node, options, body)


def amqp_get(node: Node) -> bytes | None:
    """The first message by AMQP, which goes back with the end of the connection."""
    host, _, port = node.amqp.partition(":")
    connection = pika.BlockingConnection(pika.ConnectionParameters(host, int(port)))
    try:
        body: bytes | None = connection.channel().basic_get("dead")[2]
        return body
    finally:
        if connection.is_open:
            connection.close()


def test_with_its_key_every_door_gives_it_in_clear(buried: Buried) -> None:
    buried.restart(with_keys=True)
    assert amqp_get(buried.node) == buried.body.encode()
    assert consume(buried.node, "dead", 2) == [buried.body.encode(), CLEAR_LETTER.encode()]
    seen = [
        message["Body"]
        for _ in range(2)
        for message in sqs_at(buried.node)
        .receive_message(QueueUrl=buried.url, VisibilityTimeout=1, MaxNumberOfMessages=1, WaitTimeSeconds=5)
        .get("Messages", [])
    ]
    assert sorted(seen) == sorted([buried.body, CLEAR_LETTER])


def test_without_its_key_no_door_gives_its_ciphertext(buried: Buried) -> None:
    buried.restart(with_keys=False)
    sqs = sqs_at(buried.node)

    def receive_one() -> dict[str, Any]:
        found: dict[str, Any] = sqs.receive_message(QueueUrl=buried.url, MaxNumberOfMessages=1, WaitTimeSeconds=3)
        return found

    with pytest.raises(ClientError, match="no master keys"):
        receive_one()

    def is_clear_letter_given() -> bool:
        try:
            both = sqs.receive_message(QueueUrl=buried.url, MaxNumberOfMessages=10, VisibilityTimeout=1)["Messages"]
        except sqs.exceptions.KmsNotFound:  # The lease of the clear letter, from the test before, has not ended yet.
            return False
        return [message["Body"] for message in both] == [CLEAR_LETTER]

    eventually(is_clear_letter_given, "what is in clear is given out")
    for method, path, body in (
        ("POST", "receive", {"wait_ms": 0}),
        ("GET", "letters", None),
        ("GET", "messages", None),
    ):
        with pytest.raises(urllib.error.HTTPError) as refused:
            http(buried.node, method, f"/api/v1/queues/dead/{path}", body)
        assert "no master keys" in refused.value.read().decode()
    with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="no master keys"):
        amqp_get(buried.node)
    with pytest.raises(AssertionError, match="authori"):
        consume(buried.node, "dead", 1)
    buried.restart(with_keys=True)
    letters = [buried.body.encode(), CLEAR_LETTER.encode()]
    assert consume(buried.node, "dead", 2) == letters, "nothing was lost by the refusals"

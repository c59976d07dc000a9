"""boto3's resource interface: the same queues as objects."""

from __future__ import annotations

from typing import Any

import boto3
import pytest

from tests.clients.conftest import FreshName
from tests.clients.sqs.conftest import CREDENTIALS, REGION


@pytest.fixture(scope="module")
def resource(either_endpoint: str) -> Any:
    return boto3.resource("sqs", endpoint_url=either_endpoint, region_name=REGION, **CREDENTIALS)


def test_an_ordinary_program(resource: Any, fresh_name: FreshName) -> None:
    name = fresh_name("resource")
    made = resource.create_queue(QueueName=name, Attributes={"DelaySeconds": "0"})
    queue = resource.get_queue_by_name(QueueName=name)
    assert queue.url == made.url
    assert queue.attributes["VisibilityTimeout"] == "30"
    assert [each.url for each in resource.queues.filter(QueueNamePrefix=name)] == [made.url]
    attributes = {"Author": {"StringValue": "Daniel", "DataType": "String"}}
    queue.send_message(MessageBody="boto3", MessageAttributes=attributes)
    queue.send_messages(Entries=[{"Id": "1", "MessageBody": "world"}, {"Id": "2", "MessageBody": "hello"}])
    seen: dict[str, Any] = {}
    while len(seen) < 3:
        for message in queue.receive_messages(
            MessageAttributeNames=["Author"], MaxNumberOfMessages=10, WaitTimeSeconds=2
        ):
            seen[message.body] = message.message_attributes
            message.delete()
    assert seen == {"boto3": attributes, "world": None, "hello": None}


def test_messages_change_their_lease_and_go_in_batches(resource: Any, fresh_name: FreshName) -> None:
    queue = resource.create_queue(QueueName=fresh_name("resource"))
    queue.send_message(MessageBody="x")
    (message,) = queue.receive_messages(WaitTimeSeconds=2)
    message.change_visibility(VisibilityTimeout=0)
    (again,) = queue.receive_messages(WaitTimeSeconds=2)
    assert again.message_id == message.message_id
    entries = [{"Id": "1", "ReceiptHandle": again.receipt_handle}]
    assert len(queue.delete_messages(Entries=entries)["Successful"]) == 1
    queue.set_attributes(Attributes={"VisibilityTimeout": "77"})
    queue.reload()
    assert queue.attributes["VisibilityTimeout"] == "77"
    queue.delete()


def test_dead_letter_sources(resource: Any, fresh_name: FreshName) -> None:
    dead = resource.create_queue(QueueName=fresh_name("dead"))
    policy = f'{{"deadLetterTargetArn": "{dead.attributes["QueueArn"]}", "maxReceiveCount": 5}}'
    source = resource.create_queue(QueueName=fresh_name("source"), Attributes={"RedrivePolicy": policy})
    assert [each.url for each in dead.dead_letter_source_queues.all()] == [source.url]

"""Every action of the service in one sequence, in both protocols; the calls of botocore are counted."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.clients.conftest import FreshName, eventually
from tests.clients.sqs.words import arn, bodies, receive
from tests.doors.sqs.clients import client, shipped_model

ACTIONS = 23


@pytest.mark.parametrize("protocol", ["json", "query"])
def test_every_action(endpoint: str, fresh_name: FreshName, protocol: str) -> None:
    sqs = client(endpoint, protocol)
    called: set[str] = set()

    def note(model: Any, parsed: dict[str, Any], **_: Any) -> None:
        assert parsed["ResponseMetadata"]["HTTPStatusCode"] == 200, parsed
        called.add(model.name)

    sqs.meta.events.register("after-call.sqs", note)
    source, dead = _queues(sqs, fresh_name)
    _settings(sqs, source, dead)
    _messages(sqs, source)
    _moves(sqs, source, dead)
    for url in (source, dead):
        sqs.purge_queue(QueueUrl=url)
        sqs.delete_queue(QueueUrl=url)
    assert called == set(shipped_model()["operations"])
    assert len(called) == ACTIONS


def _queues(sqs: Any, fresh_name: FreshName) -> tuple[str, str]:
    name = fresh_name("every")
    source = sqs.create_queue(QueueName=name, tags={"team": "a", "stage": "b"})["QueueUrl"]
    dead = sqs.create_queue(QueueName=f"{name}-dead", Attributes={"VisibilityTimeout": "0"})["QueueUrl"]
    assert sqs.get_queue_url(QueueName=name)["QueueUrl"] == source
    assert sqs.list_queues(QueueNamePrefix=name)["QueueUrls"] == [source, dead]
    return source, dead


def _settings(sqs: Any, source: str, dead: str) -> None:
    policy = json.dumps({"deadLetterTargetArn": arn(sqs, dead), "maxReceiveCount": 1})
    sqs.set_queue_attributes(QueueUrl=source, Attributes={"RedrivePolicy": policy, "VisibilityTimeout": "600"})
    said = sqs.get_queue_attributes(QueueUrl=source, AttributeNames=["All"])["Attributes"]
    assert (json.loads(said["RedrivePolicy"]), said["VisibilityTimeout"]) == (json.loads(policy), "600")
    assert sqs.list_dead_letter_source_queues(QueueUrl=dead)["queueUrls"] == [source]
    sqs.tag_queue(QueueUrl=source, Tags={"stage": "c"})
    sqs.untag_queue(QueueUrl=source, TagKeys=["team"])
    assert sqs.list_queue_tags(QueueUrl=source)["Tags"] == {"stage": "c"}
    sqs.add_permission(QueueUrl=source, Label="one", AWSAccountIds=["123456789012"], Actions=["SendMessage"])
    said = sqs.get_queue_attributes(QueueUrl=source, AttributeNames=["Policy"])["Attributes"]
    assert [each["Sid"] for each in json.loads(said["Policy"])["Statement"]] == ["one"]
    sqs.remove_permission(QueueUrl=source, Label="one")
    assert "Policy" not in sqs.get_queue_attributes(QueueUrl=source, AttributeNames=["All"])["Attributes"]


def _messages(sqs: Any, source: str) -> None:
    assert sqs.send_message(QueueUrl=source, MessageBody="one")["MD5OfMessageBody"]
    entries = [{"Id": str(number), "MessageBody": f"batch {number}"} for number in range(4)]
    assert len(sqs.send_message_batch(QueueUrl=source, Entries=entries)["Successful"]) == 4
    got = receive(sqs, source, 5)
    assert sorted(bodies(got)) == ["batch 0", "batch 1", "batch 2", "batch 3", "one"]
    handles = [each["ReceiptHandle"] for each in got]
    sqs.delete_message(QueueUrl=source, ReceiptHandle=handles[0])
    gone = [{"Id": str(at), "ReceiptHandle": handles[at]} for at in (1, 2)]
    assert len(sqs.delete_message_batch(QueueUrl=source, Entries=gone)["Successful"]) == 2
    sqs.change_message_visibility(QueueUrl=source, ReceiptHandle=handles[3], VisibilityTimeout=0)
    back = [{"Id": "b", "ReceiptHandle": handles[4], "VisibilityTimeout": 0}]
    assert len(sqs.change_message_visibility_batch(QueueUrl=source, Entries=back)["Successful"]) == 1


def _moves(sqs: Any, source: str, dead: str) -> None:
    """Both messages that were given back have been received as often as they may."""

    def letters() -> str:
        sqs.receive_message(QueueUrl=source)
        said = sqs.get_queue_attributes(QueueUrl=dead, AttributeNames=["ApproximateNumberOfMessages"])
        return str(said["Attributes"]["ApproximateNumberOfMessages"])

    eventually(lambda: letters() == "2", "both are dead letters")
    handle = sqs.start_message_move_task(SourceArn=arn(sqs, dead), MaxNumberOfMessagesPerSecond=1)["TaskHandle"]
    (task,) = sqs.list_message_move_tasks(SourceArn=arn(sqs, dead))["Results"]
    assert (task["Status"], task["TaskHandle"]) == ("RUNNING", handle)
    assert sqs.cancel_message_move_task(TaskHandle=handle)["ApproximateNumberOfMessagesMoved"] <= 2

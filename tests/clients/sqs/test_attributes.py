"""Attributes of queues: defaults, bounds and invalid values."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from tests.clients.sqs.conftest import MakeQueue
from tests.clients.sqs.refusals import INVALID_ATTRIBUTE_NAME, INVALID_ATTRIBUTE_VALUE, INVALID_PARAMETER, refusal
from tests.clients.sqs.words import arn, attribute, receive, redrive, send

BOUNDS = {
    "DelaySeconds": (0, 900),
    "MaximumMessageSize": (1024, 1_048_576),
    "MessageRetentionPeriod": (60, 1_209_600),
    "ReceiveMessageWaitTimeSeconds": (0, 20),
    "VisibilityTimeout": (0, 43_200),
    "KmsDataKeyReusePeriodSeconds": (60, 86_400),
}


def test_defaults(sqs: Any, queue: str) -> None:
    before = int(time.time())
    said = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["All"])["Attributes"]
    expected = {
        "ApproximateNumberOfMessages": "0",
        "ApproximateNumberOfMessagesDelayed": "0",
        "ApproximateNumberOfMessagesNotVisible": "0",
        "DelaySeconds": "0",
        "MaximumMessageSize": "1048576",
        "MessageRetentionPeriod": "345600",
        "ReceiveMessageWaitTimeSeconds": "0",
        "VisibilityTimeout": "30",
    }
    assert {name: said.get(name) for name in expected} == expected
    for absent in ("FifoQueue", "RedrivePolicy", "Policy", "KmsMasterKeyId", "ContentBasedDeduplication"):
        assert absent not in said
    assert said["QueueArn"].startswith("arn:aws:sqs:us-east-1:")
    assert said["QueueArn"].endswith(":" + queue.rsplit("/", 1)[1])
    for name in ("CreatedTimestamp", "LastModifiedTimestamp"):
        assert before - 60 <= int(said[name]) <= before + 60


def test_only_what_was_asked(sqs: Any, queue: str) -> None:
    said = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["DelaySeconds", "QueueArn"])["Attributes"]
    assert sorted(said) == ["DelaySeconds", "QueueArn"]
    assert "Attributes" not in sqs.get_queue_attributes(QueueUrl=queue)


@pytest.mark.parametrize("name", BOUNDS)
def test_the_bounds_themselves_are_allowed(sqs: Any, queue: str, name: str) -> None:
    if name.startswith("Kms"):
        sqs.set_queue_attributes(QueueUrl=queue, Attributes={"KmsMasterKeyId": "alias/aws/sqs"})
    for value in BOUNDS[name]:
        sqs.set_queue_attributes(QueueUrl=queue, Attributes={name: str(value)})
        assert attribute(sqs, queue, name) == str(value)


@pytest.mark.parametrize("name", BOUNDS)
@pytest.mark.parametrize("side", [0, 1], ids=["below", "above"])
def test_one_beyond_the_bounds_changes_nothing(sqs: Any, queue: str, name: str, side: int) -> None:
    value = BOUNDS[name][side] + (1 if side else -1)
    other = "DelaySeconds" if name != "DelaySeconds" else "VisibilityTimeout"
    before = attribute(sqs, queue, other)
    assert (
        refusal(sqs.set_queue_attributes, QueueUrl=queue, Attributes={other: "7", name: str(value)})
        == INVALID_ATTRIBUTE_VALUE
    )
    assert attribute(sqs, queue, other) == before


@pytest.mark.parametrize("name", BOUNDS)
def test_a_queue_is_not_made_beyond_the_bounds(sqs: Any, make_queue: MakeQueue, name: str) -> None:
    assert refusal(make_queue, **{name: BOUNDS[name][1] + 1}) == INVALID_ATTRIBUTE_VALUE


@pytest.mark.parametrize("value", ["ten", "", "1.5", "-0", " 5"])
def test_invalid_numbers(sqs: Any, queue: str, value: str) -> None:
    assert (
        refusal(sqs.set_queue_attributes, QueueUrl=queue, Attributes={"VisibilityTimeout": value})
        == INVALID_ATTRIBUTE_VALUE
    )


def test_invalid_attributes(sqs: Any, queue: str, make_queue: MakeQueue) -> None:
    assert refusal(sqs.get_queue_attributes, QueueUrl=queue, AttributeNames=["Unheard"]) == INVALID_ATTRIBUTE_NAME
    assert refusal(sqs.set_queue_attributes, QueueUrl=queue, Attributes={"Unheard": "1"}) == INVALID_ATTRIBUTE_NAME
    assert refusal(make_queue, Unheard="1") == INVALID_ATTRIBUTE_NAME
    assert (
        refusal(
            sqs.set_queue_attributes, QueueUrl=queue, Attributes={"QueueArn": "arn:aws:sqs:us-east-1:000000000000:x"}
        )
        == INVALID_ATTRIBUTE_NAME
    )


@pytest.mark.parametrize("name", ["ContentBasedDeduplication", "DeduplicationScope", "FifoThroughputLimit"])
def test_a_standard_queue_refuses_fifo_parameters(sqs: Any, queue: str, name: str) -> None:
    assert refusal(sqs.set_queue_attributes, QueueUrl=queue, Attributes={name: "true"}) == INVALID_ATTRIBUTE_NAME


def test_fifo_attributes(sqs: Any, make_queue: MakeQueue) -> None:
    url = make_queue(fifo=True)
    said = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
    assert said["FifoQueue"] == "true"
    assert said["ContentBasedDeduplication"] == "false"
    assert said["DeduplicationScope"] == "queue"
    assert said["FifoThroughputLimit"] == "perQueue"
    sqs.set_queue_attributes(
        QueueUrl=url,
        Attributes={"DeduplicationScope": "messageGroup", "FifoThroughputLimit": "perMessageGroupId"},
    )
    assert attribute(sqs, url, "FifoThroughputLimit") == "perMessageGroupId"


def test_throughput_by_group_needs_deduplication_by_group(sqs: Any, make_queue: MakeQueue) -> None:
    url = make_queue(fifo=True)
    assert (
        refusal(sqs.set_queue_attributes, QueueUrl=url, Attributes={"FifoThroughputLimit": "perMessageGroupId"})
        == INVALID_ATTRIBUTE_VALUE
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [("ContentBasedDeduplication", "maybe"), ("DeduplicationScope", "hall"), ("FifoThroughputLimit", "none")],
)
def test_invalid_words(sqs: Any, make_queue: MakeQueue, name: str, value: str) -> None:
    assert (
        refusal(sqs.set_queue_attributes, QueueUrl=make_queue(fifo=True), Attributes={name: value})
        == INVALID_ATTRIBUTE_VALUE
    )


def test_the_kind_of_a_queue_does_not_change(sqs: Any, queue: str, make_queue: MakeQueue) -> None:
    assert refusal(sqs.set_queue_attributes, QueueUrl=queue, Attributes={"FifoQueue": "true"}) == INVALID_ATTRIBUTE_NAME
    assert (
        refusal(sqs.set_queue_attributes, QueueUrl=make_queue(fifo=True), Attributes={"FifoQueue": "false"})
        == INVALID_ATTRIBUTE_VALUE
    )


def test_fifo_and_names_go_together(sqs: Any) -> None:
    assert refusal(sqs.create_queue, QueueName="without-suffix", Attributes={"FifoQueue": "true"}) == INVALID_PARAMETER


def test_policies_are_stored_and_removed(sqs: Any, queue: str) -> None:
    statement = {"Effect": "Allow", "Principal": "*", "Action": "sqs:SendMessage", "Resource": arn(sqs, queue)}
    policy = {"Version": "2012-10-17", "Statement": [statement]}
    sqs.set_queue_attributes(QueueUrl=queue, Attributes={"Policy": json.dumps(policy)})
    assert json.loads(attribute(sqs, queue, "Policy")) == policy
    assert (
        refusal(sqs.set_queue_attributes, QueueUrl=queue, Attributes={"Policy": "no json"}) == INVALID_ATTRIBUTE_VALUE
    )
    sqs.set_queue_attributes(QueueUrl=queue, Attributes={"Policy": ""})
    assert "Policy" not in sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["All"])["Attributes"]


def test_counts_follow_the_messages(sqs: Any, queue: str) -> None:
    send(sqs, queue, "a", "b", "c")
    send(sqs, queue, "later", DelaySeconds=600)
    receive(sqs, queue, 1)
    names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
    names.append("ApproximateNumberOfMessagesDelayed")
    said = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=names)["Attributes"]
    assert [said[name] for name in names] == ["2", "1", "1"]


def test_redrive_policies_that_are_refused(sqs: Any, queue: str, make_queue: MakeQueue, fifo: str) -> None:
    target = make_queue()
    absent = json.dumps({"deadLetterTargetArn": arn(sqs, target) + "-absent", "maxReceiveCount": 3})
    half = json.dumps({"deadLetterTargetArn": arn(sqs, target)})
    wrong = [absent, half, redrive(sqs, target, 0), redrive(sqs, target, 1001), redrive(sqs, fifo, 3)]
    for policy in wrong:
        assert (
            refusal(sqs.set_queue_attributes, QueueUrl=queue, Attributes={"RedrivePolicy": policy}) == INVALID_PARAMETER
        )
    for policy in ("no json", "[]", json.dumps(half)):
        refused = refusal(sqs.set_queue_attributes, QueueUrl=queue, Attributes={"RedrivePolicy": policy})
        assert refused == INVALID_ATTRIBUTE_VALUE
    sqs.set_queue_attributes(QueueUrl=queue, Attributes={"RedrivePolicy": redrive(sqs, target, 1000)})
    assert json.loads(attribute(sqs, queue, "RedrivePolicy"))["maxReceiveCount"] == 1000
    sqs.set_queue_attributes(QueueUrl=queue, Attributes={"RedrivePolicy": ""})
    assert "RedrivePolicy" not in sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["All"])["Attributes"]


def test_a_queue_may_say_whose_dead_letters_it_takes(sqs: Any, queue: str, make_queue: MakeQueue) -> None:
    target = make_queue(RedriveAllowPolicy=json.dumps({"redrivePermission": "denyAll"}))
    assert (
        refusal(sqs.set_queue_attributes, QueueUrl=queue, Attributes={"RedrivePolicy": redrive(sqs, target, 3)})
        == INVALID_PARAMETER
    )
    allowed = json.dumps({"redrivePermission": "byQueue", "sourceQueueArns": [arn(sqs, queue)]})
    sqs.set_queue_attributes(QueueUrl=target, Attributes={"RedriveAllowPolicy": allowed})
    sqs.set_queue_attributes(QueueUrl=queue, Attributes={"RedrivePolicy": redrive(sqs, target, 3)})
    assert (
        refusal(
            sqs.set_queue_attributes,
            QueueUrl=target,
            Attributes={"RedriveAllowPolicy": '{"redrivePermission": "some"}'},
        )
        == INVALID_ATTRIBUTE_VALUE
    )

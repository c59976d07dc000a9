"""Every attribute that the service's model names, of queues and of messages: shown, alone and among all."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.clients.serving import CLUSTER, PLACEMENT
from tests.clients.sqs.conftest import MakeQueue
from tests.clients.sqs.refusals import INVALID_ATTRIBUTE_NAME, refusal
from tests.clients.sqs.words import arn, nothing_comes, receive, redrive, send
from tests.doors.sqs.clients import shipped_model

SHAPES = shipped_model()["shapes"]
OF_QUEUES = sorted(set(SHAPES["QueueAttributeName"]["enum"]) - {"All"})
OF_MESSAGES = sorted(set(SHAPES["MessageSystemAttributeName"]["enum"]) - {"All"})
READ_ONLY = {name for name in OF_QUEUES if name.startswith("Approximate") or name.endswith("Timestamp")} | {"QueueArn"}
TRACE = {"AWSTraceHeader": {"DataType": "String", "StringValue": "Root=1-5759e988-bd862e3fe1be46a994272793"}}


# A queue of a cluster that spreads also shows where it is.
PLACED = ["LonghallPlacement"] if CLUSTER and PLACEMENT == "spread" else []


@pytest.fixture
def full(sqs: Any, make_queue: MakeQueue) -> str:
    """A queue on which everything is set that can be."""
    dead = make_queue(fifo=True)
    url = make_queue(
        fifo=True,
        ContentBasedDeduplication="true",
        DeduplicationScope="messageGroup",
        FifoThroughputLimit="perMessageGroupId",
        DelaySeconds=1,
        MaximumMessageSize=2048,
        MessageRetentionPeriod=3600,
        ReceiveMessageWaitTimeSeconds=1,
        VisibilityTimeout=0,
        KmsMasterKeyId="alias/aws/sqs",
        KmsDataKeyReusePeriodSeconds=600,
        RedrivePolicy=redrive(sqs, dead, 1),
        RedriveAllowPolicy=json.dumps({"redrivePermission": "allowAll"}),
    )
    statement = {"Effect": "Allow", "Principal": "*", "Action": "sqs:SendMessage", "Resource": arn(sqs, url)}
    policy = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
    sqs.set_queue_attributes(QueueUrl=url, Attributes={"Policy": policy})
    return url


def test_every_attribute_of_a_queue(sqs: Any, full: str) -> None:
    every = sqs.get_queue_attributes(QueueUrl=full, AttributeNames=["All"])["Attributes"]
    assert sorted(every) == sorted([*OF_QUEUES, *PLACED])
    for name in OF_QUEUES:
        said = sqs.get_queue_attributes(QueueUrl=full, AttributeNames=[name])["Attributes"]
        assert said == {name: every[name]}


def test_every_attribute_that_can_be_set_is_set_again(sqs: Any, full: str) -> None:
    every = sqs.get_queue_attributes(QueueUrl=full, AttributeNames=["All"])["Attributes"]
    for name in OF_QUEUES:
        if name in READ_ONLY:
            wanted = {name: every[name]}
            assert refusal(sqs.set_queue_attributes, QueueUrl=full, Attributes=wanted) == INVALID_ATTRIBUTE_NAME
        else:
            sqs.set_queue_attributes(QueueUrl=full, Attributes={name: every[name]})
    again = sqs.get_queue_attributes(QueueUrl=full, AttributeNames=["All"])["Attributes"]
    assert {name: again[name] for name in set(OF_QUEUES) - READ_ONLY} == {
        name: every[name] for name in set(OF_QUEUES) - READ_ONLY
    }


def test_every_attribute_of_a_message(sqs: Any, make_queue: MakeQueue) -> None:
    """A message that died in a FIFO queue has all of them."""
    dead = make_queue(fifo=True, VisibilityTimeout=0)
    source = make_queue(fifo=True, VisibilityTimeout=0, RedrivePolicy=redrive(sqs, dead, 1))
    send(sqs, source, "x", MessageGroupId="g", MessageDeduplicationId="d", MessageSystemAttributes=TRACE)
    receive(sqs, source)
    assert nothing_comes(sqs, source)
    (letter,) = receive(sqs, dead, MessageSystemAttributeNames=["All"])
    assert sorted(letter["Attributes"]) == OF_MESSAGES
    for asked in ("AttributeNames", "MessageSystemAttributeNames"):
        for name in OF_MESSAGES:
            (again,) = receive(sqs, dead, **{asked: [name]})
            assert list(again["Attributes"]) == [name]


def test_every_system_attribute_can_be_sent(sqs: Any, queue: str) -> None:
    assert SHAPES["MessageSystemAttributeNameForSends"]["enum"] == list(TRACE)
    assert send(sqs, queue, "x", MessageSystemAttributes=TRACE)[0]["MD5OfMessageSystemAttributes"]

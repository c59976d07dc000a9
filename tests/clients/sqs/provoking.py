"""Requests that cause each error of the service, for any client.

`test_every_error.py` adds those that need a node with other settings, and runs them all.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from tests.clients.conftest import FreshName
from tests.clients.sqs import refusals
from tests.clients.sqs.conftest import MakeQueue
from tests.clients.sqs.refusals import Refusal, refusal
from tests.clients.sqs.words import arn, receive, send

ABSENT: Final = "http://127.0.0.1/000000000000/there-is-no-such-queue"
MEBIBYTE: Final = 1 << 20


class Stage(NamedTuple):
    """What a request that causes an error may use."""

    sqs: Any  # Without checks of its own, to send what it would not.
    make: MakeQueue
    name: FreshName
    guarded: str  # The endpoint of the node that checks signatures, knows keys and has little memory.


Way = Callable[[Stage], Refusal]
WAYS: dict[Refusal, Way] = {}


def gives(expected: Refusal) -> Callable[[Way], Way]:
    def register(way: Way) -> Way:
        assert expected not in WAYS
        WAYS[expected] = way
        return way

    return register


@gives(refusals.NO_QUEUE)
def _(stage: Stage) -> Refusal:
    return refusal(stage.sqs.send_message, QueueUrl=ABSENT, MessageBody="x")


@gives(refusals.QUEUE_EXISTS)
def _(stage: Stage) -> Refusal:
    name = stage.name("twice")
    stage.sqs.create_queue(QueueName=name)
    return refusal(stage.sqs.create_queue, QueueName=name, Attributes={"DelaySeconds": "1"})


@gives(refusals.QUEUE_DELETED_RECENTLY)
def _(stage: Stage) -> Refusal:
    name = stage.name("again")
    stage.sqs.delete_queue(QueueUrl=stage.sqs.create_queue(QueueName=name)["QueueUrl"])
    return refusal(stage.sqs.create_queue, QueueName=name)


@gives(refusals.PURGE_IN_PROGRESS)
def _(stage: Stage) -> Refusal:
    url = stage.make()
    stage.sqs.purge_queue(QueueUrl=url)
    return refusal(stage.sqs.purge_queue, QueueUrl=url)


@gives(refusals.INVALID_ADDRESS)
def _(stage: Stage) -> Refusal:
    return refusal(stage.sqs.purge_queue, QueueUrl="http://127.0.0.1/000000000000/a b")


@gives(refusals.INVALID_ATTRIBUTE_NAME)
def _(stage: Stage) -> Refusal:
    return refusal(stage.sqs.get_queue_attributes, QueueUrl=stage.make(), AttributeNames=["Unheard"])


@gives(refusals.INVALID_ATTRIBUTE_VALUE)
def _(stage: Stage) -> Refusal:
    return refusal(stage.sqs.set_queue_attributes, QueueUrl=stage.make(), Attributes={"DelaySeconds": "901"})


@gives(refusals.OVER_LIMIT)
def _(stage: Stage) -> Refusal:
    actions = ["SendMessage", "ReceiveMessage", "DeleteMessage", "ChangeMessageVisibility", "GetQueueAttributes"]
    actions += ["GetQueueUrl", "ListDeadLetterSourceQueues", "PurgeQueue"]
    how = {"QueueUrl": stage.make(), "Label": "many", "AWSAccountIds": ["123456789012"]}
    return refusal(stage.sqs.add_permission, **how, Actions=actions)


@gives(refusals.NO_RESOURCE)
def _(stage: Stage) -> Refusal:
    return refusal(stage.sqs.start_message_move_task, SourceArn=arn(stage.sqs, stage.make()) + "-absent")


@gives(refusals.INVALID_CONTENTS)
def _(stage: Stage) -> Refusal:
    return refusal(stage.sqs.send_message, QueueUrl=stage.make(), MessageBody="\x00")


@gives(refusals.UNSUPPORTED)
def _(stage: Stage) -> Refusal:
    listed = {"a": {"DataType": "String", "StringListValues": ["x"]}}
    return refusal(stage.sqs.send_message, QueueUrl=stage.make(), MessageBody="x", MessageAttributes=listed)


@gives(refusals.INVALID_RECEIPT)
def _(stage: Stage) -> Refusal:
    return refusal(stage.sqs.delete_message, QueueUrl=stage.make(), ReceiptHandle="nonsense")


@gives(refusals.INVALID_ID_FORMAT)
def _(stage: Stage) -> Refusal:
    url = stage.make()
    send(stage.sqs, url, "x")
    group, dot, receipt = receive(stage.sqs, url)[0]["ReceiptHandle"].rpartition(".")  # A wing's number, or nothing.
    later = group + dot + urlsafe_b64encode(bytes([15]) + urlsafe_b64decode(receipt)[1:]).decode()
    return refusal(stage.sqs.delete_message, QueueUrl=url, ReceiptHandle=later)


@gives(refusals.NOT_IN_FLIGHT)
def _(stage: Stage) -> Refusal:
    url = stage.make(fifo=True, ContentBasedDeduplication="true")
    send(stage.sqs, url, "x", MessageGroupId="g")
    how = {"QueueUrl": url, "ReceiptHandle": receive(stage.sqs, url)[0]["ReceiptHandle"]}
    stage.sqs.change_message_visibility(**how, VisibilityTimeout=0)
    return refusal(stage.sqs.change_message_visibility, **how, VisibilityTimeout=9)


@gives(refusals.EMPTY_BATCH)
def _(stage: Stage) -> Refusal:
    return refusal(stage.sqs.send_message_batch, QueueUrl=stage.make(), Entries=[])


@gives(refusals.TOO_MANY_ENTRIES)
def _(stage: Stage) -> Refusal:
    entries = [{"Id": str(number), "MessageBody": "x"} for number in range(11)]
    return refusal(stage.sqs.send_message_batch, QueueUrl=stage.make(), Entries=entries)


@gives(refusals.IDS_NOT_DISTINCT)
def _(stage: Stage) -> Refusal:
    return refusal(stage.sqs.send_message_batch, QueueUrl=stage.make(), Entries=[{"Id": "a", "MessageBody": "x"}] * 2)


@gives(refusals.INVALID_ENTRY_ID)
def _(stage: Stage) -> Refusal:
    entries = [{"Id": "not this one!", "MessageBody": "x"}]
    return refusal(stage.sqs.send_message_batch, QueueUrl=stage.make(), Entries=entries)


@gives(refusals.BATCH_TOO_LONG)
def _(stage: Stage) -> Refusal:
    entries = [{"Id": each, "MessageBody": "x" * (MEBIBYTE // 2 + 1)} for each in "ab"]
    return refusal(stage.sqs.send_message_batch, QueueUrl=stage.make(), Entries=entries)


@gives(refusals.INVALID_PARAMETER)
def _(stage: Stage) -> Refusal:
    return refusal(stage.sqs.receive_message, QueueUrl=stage.make(), MaxNumberOfMessages=11)


@gives(refusals.MISSING_PARAMETER)
def _(stage: Stage) -> Refusal:
    return refusal(stage.sqs.send_message, QueueUrl=stage.make())

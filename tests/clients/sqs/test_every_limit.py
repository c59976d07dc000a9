"""Every limit of the service: the limit itself is accepted, one beyond is refused, and then nothing has changed.

The limit of 120,000 messages in flight is in `test_in_flight.py`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import pytest

from tests.clients.sqs.conftest import MakeQueue
from tests.clients.sqs.refusals import (
    BATCH_TOO_LONG,
    INVALID_ATTRIBUTE_VALUE,
    INVALID_CONTENTS,
    INVALID_ENTRY_ID,
    INVALID_PARAMETER,
    TOO_MANY_ENTRIES,
    Refusal,
    refusal,
)
from tests.clients.sqs.words import arn, receive, send

MEBIBYTE: Final = 1 << 20


class Limit(NamedTuple):
    """`ask` makes the request with a value: those within are taken, those beyond are refused."""

    name: str
    ask: Callable[[Any, str, Any], Any]
    within: tuple[Any, ...]
    beyond: tuple[Any, ...]
    refused: Refusal = INVALID_PARAMETER
    fifo: bool = False


def sent(sqs: Any, url: str, body: str, **how: Any) -> Any:
    return sqs.send_message(QueueUrl=url, MessageBody=body, **how)


def sent_batch(sqs: Any, url: str, entries: list[dict[str, Any]]) -> Any:
    return sqs.send_message_batch(QueueUrl=url, Entries=entries)


def entries(count: int) -> list[dict[str, Any]]:
    return [{"Id": str(number), "MessageBody": "x"} for number in range(count)]


def attributes(count: int) -> dict[str, Any]:
    return {f"a{number}": {"DataType": "String", "StringValue": "v"} for number in range(count)}


def to_group(sqs: Any, url: str, value: str) -> Any:
    return sent(sqs, url, "x", MessageGroupId=value, MessageDeduplicationId=f"{len(value)}")


def once(sqs: Any, url: str, value: str) -> Any:
    return sent(sqs, url, "x", MessageGroupId="g", MessageDeduplicationId=value)


def attribute(name: str, least: int, most: int) -> Limit:
    def ask(sqs: Any, url: str, value: int) -> Any:
        return sqs.set_queue_attributes(QueueUrl=url, Attributes={name: str(value)})

    return Limit(name, ask, (least, most), (least - 1, most + 1), INVALID_ATTRIBUTE_VALUE)


def received(name: str, least: int, most: int) -> Limit:
    """There is always something to receive, so that the longest wait is none."""

    def ask(sqs: Any, url: str, value: int) -> Any:
        send(sqs, url, "there")
        return sqs.receive_message(QueueUrl=url, **{name: value})

    return Limit(f"{name} of a receive", ask, (least, most), (least - 1, most + 1))


def leased(sqs: Any, url: str, seconds: int) -> Any:
    send(sqs, url, "leased")
    (message,) = receive(sqs, url)
    return sqs.change_message_visibility(
        QueueUrl=url, ReceiptHandle=message["ReceiptHandle"], VisibilityTimeout=seconds
    )


def redriven(sqs: Any, url: str, count: int) -> Any:
    dead = sqs.create_queue(QueueName=url.rsplit("/", 1)[1] + "-dead")["QueueUrl"]
    policy = {"deadLetterTargetArn": arn(sqs, dead), "maxReceiveCount": count}
    return sqs.set_queue_attributes(QueueUrl=url, Attributes={"RedrivePolicy": json.dumps(policy)})


LIMITS: Final = [
    Limit("message bytes", sent, ("x", "x" * MEBIBYTE, "é" * (MEBIBYTE // 2)), ("x" * (MEBIBYTE + 1),)),
    Limit("batch bytes", lambda sqs, url, size: sent_batch(sqs, url, [
        {"Id": "a", "MessageBody": "x" * (MEBIBYTE // 2)}, {"Id": "b", "MessageBody": "x" * (size - MEBIBYTE // 2)}]),
        (MEBIBYTE,), (MEBIBYTE + 1,), BATCH_TOO_LONG),
    Limit("batch entries", lambda sqs, url, count: sent_batch(sqs, url, entries(count)), (1, 10), (11,),
        TOO_MANY_ENTRIES),
    Limit("entry id", lambda sqs, url, value: sent_batch(sqs, url, [{"Id": value, "MessageBody": "x"}]),
        ("a", "aZ0_-" * 16), ("a" * 81, "a.b", "a b", "ä", ""), INVALID_ENTRY_ID),
    Limit("attributes", lambda sqs, url, count: sent(sqs, url, "x", MessageAttributes=attributes(count)), (1, 10),
        (11,)),
    Limit("number attribute", lambda sqs, url, value: sent(sqs, url, "x", MessageAttributes={
        "a": {"DataType": "Number", "StringValue": value}}), ("1e126", "-1e128", "1e-400"), ("1.1e126", "-1.1e128")),
    Limit("delay", lambda sqs, url, delay: sent(sqs, url, "x", DelaySeconds=delay), (0, 900), (-1, 901)),
    Limit("text", sent, ("\t\n\r \ud7ff\ue000\ufffd\U00010000\U0010ffff",),
        ("\x00", "\x08", "\x0b", "\x0c", "\x0e", "\x1f", "\ufffe", "\uffff"), INVALID_CONTENTS),
    attribute("DelaySeconds", 0, 900),
    attribute("MaximumMessageSize", 1024, MEBIBYTE),
    attribute("MessageRetentionPeriod", 60, 1_209_600),
    attribute("ReceiveMessageWaitTimeSeconds", 0, 20),
    attribute("VisibilityTimeout", 0, 43_200),
    received("MaxNumberOfMessages", 1, 10),
    received("VisibilityTimeout", 0, 43_200),
    received("WaitTimeSeconds", 0, 20),
    Limit("VisibilityTimeout of a lease", leased, (0, 43_100), (-1, 43_200, 43_201)),
    Limit("group id", to_group, ("g", "g" * 128), ("g" * 129, "g g"), fifo=True),
    Limit("deduplication id", once, ("d", "d" * 128), ("d" * 129,), fifo=True),
    Limit("delay of a FIFO message", lambda sqs, url, delay: sent(sqs, url, "x", MessageGroupId="g",
        MessageDeduplicationId="d", DelaySeconds=delay), (0,), (1, 900), fifo=True),
    Limit("attempt id", lambda sqs, url, value: sqs.receive_message(QueueUrl=url, ReceiveRequestAttemptId=value),
        ("a", "a" * 128), ("a" * 129,), fifo=True),
    Limit("receives before death", redriven, (1, 1000), (0, 1001)),
    Limit("page of queues", lambda sqs, url, count: sqs.list_queues(MaxResults=count), (1, 1000), (0, 1001)),
]  # fmt: skip


def shown(sqs: Any, url: str, limit: Limit) -> dict[str, str]:
    """All that is to be seen of a queue, but for when and where it was made."""
    said = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
    left_out = {"QueueArn", "CreatedTimestamp", "LastModifiedTimestamp"}
    if limit.name.endswith((" of a receive", " of a lease")):
        left_out |= {"ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"}  # `ask` itself sends.
    return {name: value for name, value in said.items() if name not in left_out}


@pytest.mark.parametrize("limit", LIMITS, ids=lambda each: each.name)
def test_every_limit(careless: Any, make_queue: MakeQueue, limit: Limit) -> None:
    for value in limit.within:
        said = limit.ask(careless, make_queue(fifo=limit.fifo), value)
        assert not said.get("Failed"), value
    url = make_queue(fifo=limit.fifo)
    for value in limit.beyond:
        assert refusal(limit.ask, careless, url, value) == limit.refused, value
    assert shown(careless, url, limit) == shown(careless, make_queue(fifo=limit.fifo), limit)

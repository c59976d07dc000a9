"""Answers, fates, the audit topic and the retry topic, with boto3 on one side and confluent-kafka on the other."""

from __future__ import annotations

import json
import urllib.request
from typing import Any

import pytest
from botocore.exceptions import ClientError

from soak.node import Node
from tests.clients.conftest import FreshName
from tests.clients.librdkafka import new_producer, read_all
from tests.clients.librdkafka import send as produce
from tests.clients.sqs.conftest import MakeQueue
from tests.clients.sqs.words import arn, bodies, delete, nothing_comes, receive, redrive, send
from tests.left_out import leave_out

EVERY = {"MessageAttributeNames": ["All"]}


@pytest.fixture(autouse=True)
def ours(hall: Node | None) -> None:
    if hall is None:
        leave_out("LONGHALL_TEST_SQS names a server, and only Longhall has these")


def text(**values: str) -> dict[str, dict[str, str]]:
    names = {name: f"longhall.{name.replace('_', '-')}" for name in values}
    return {names[name]: {"DataType": "String", "StringValue": value} for name, value in values.items()}


def _name(url: str) -> str:
    return url.rsplit("/", 1)[1]


def _create(node: Node, name: str, **settings: object) -> None:
    body = json.dumps({"name": name, "settings": settings}).encode()
    request = urllib.request.Request(
        f"http://{node.http}/api/v1/queues", body, {"Content-Type": "application/json"}, method="POST"
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        assert answer.status == 201


@pytest.mark.parametrize("how", ["name", "url", "arn"])
def test_an_answer_goes_to_the_queue_that_the_request_names(sqs: Any, make_queue: MakeQueue, how: str) -> None:
    requests, replies = make_queue(), make_queue()
    reply_to = {"name": _name(replies), "url": replies, "arn": arn(sqs, replies)}[how]
    send(sqs, requests, "what?", MessageAttributes=text(reply_to=reply_to, correlation_id="c-1"))
    (request,) = receive(sqs, requests, **EVERY)
    assert request["MessageAttributes"] == text(reply_to=_name(replies), correlation_id="c-1")
    send(sqs, requests, "that", MessageAttributes=text(answers=request["ReceiptHandle"]))
    (reply,) = receive(sqs, replies, **EVERY)
    assert (reply["Body"], reply["MessageAttributes"]) == ("that", text(correlation_id="c-1"))
    assert nothing_comes(sqs, requests)


def test_the_delivery_report_of_a_message_is_sent(sqs: Any, make_queue: MakeQueue, kafka: str) -> None:
    dead, replies = make_queue(), make_queue()
    work = make_queue(RedrivePolicy=redrive(sqs, dead, 1), VisibilityTimeout=0)
    asking = text(reply_to=_name(replies), correlation_id="c-1", report_fate="true")
    (sent,) = send(sqs, work, "done", MessageAttributes=asking)
    delete(sqs, work, receive(sqs, work, VisibilityTimeout=30))
    (told,) = receive(sqs, replies, **EVERY)
    assert told["MessageAttributes"] == text(correlation_id="c-1", fate="settled")
    fate = json.loads(told["Body"])
    assert (fate["fate"], fate["queue"], fate["message_id"]) == ("settled", _name(work), sent["MessageId"])
    # The same for a Kafka producer, with headers.
    headers = [("longhall.reply-to", _name(replies).encode()), ("longhall.report-fate", b"1")]
    produce(new_producer(kafka), _name(work), [b"fails"], headers=headers)
    receive(sqs, work)
    assert nothing_comes(sqs, work)
    (told,) = receive(sqs, replies, **EVERY)
    fate = json.loads(told["Body"])
    assert (fate["fate"], fate["reason"], fate["attempts"]) == ("dead-lettered", "attempts", 1)
    (letter,) = receive(sqs, dead)
    assert told["MessageAttributes"] == text(correlation_id=letter["MessageId"], fate="dead-lettered")
    # And a Kafka reader of the reply queue finds them as headers.
    first, second = [dict(message.headers()) for message in read_all(kafka, _name(replies))]
    assert (first["longhall.fate"], first["longhall.correlation-id"]) == (b"settled", b"c-1")
    assert second["longhall.fate"] == b"dead-lettered"


def test_invalid_requests_are_refused_and_nothing_is_sent(sqs: Any, make_queue: MakeQueue) -> None:
    work = make_queue()
    for wrong in (
        {"longhall.reply-to": {"DataType": "Number", "StringValue": "1"}},
        text(reply_to="no name"),
        text(report_fate="true"),
        text(reply_to=_name(work), report_fate="perhaps"),
        text(correlation_id="x" * 1025),
    ):
        with pytest.raises(ClientError) as caught:
            send(sqs, work, "x", MessageAttributes=wrong)
        assert caught.value.response["Error"]["Code"] == "InvalidParameterValue", wrong
    with pytest.raises(ClientError) as caught:
        send(sqs, work, "x", MessageAttributes=text(answers="nonsense"))
    assert caught.value.response["Error"]["Code"] == "ReceiptHandleIsInvalid"
    entry = {"Id": "1", "MessageBody": "x", "MessageAttributes": text(answers="nonsense")}
    (failed,) = sqs.send_message_batch(QueueUrl=work, Entries=[entry])["Failed"]
    assert failed["SenderFault"]
    assert nothing_comes(sqs, work)
    send(sqs, work, "mute")
    (mute,) = receive(sqs, work)
    with pytest.raises(ClientError, match="reply queue"):
        send(sqs, work, "x", MessageAttributes=text(answers=mute["ReceiptHandle"]))
    delete(sqs, work, [mute])  # It was not settled by that.


def test_a_kafka_reader_sees_what_happened_to_every_message(
    sqs: Any, hall: Node, kafka: str, fresh_name: FreshName
) -> None:
    name, dead = fresh_name("audited"), fresh_name("dead")
    _create(hall, dead)
    letters = {"queue": dead, "attempts_max": 2}
    _create(hall, name, audit="deliveries", retry={"first_ms": 100}, dead_letters=letters)
    url = sqs.get_queue_url(QueueName=name)["QueueUrl"]
    send(sqs, url, "good", "bad")
    good, bad = receive(sqs, url, 2)
    assert bodies([good, bad]) == ["good", "bad"]
    delete(sqs, url, [good])
    sqs.change_message_visibility(QueueUrl=url, ReceiptHandle=bad["ReceiptHandle"], VisibilityTimeout=0)
    (again,) = receive(sqs, url)
    sqs.change_message_visibility(QueueUrl=url, ReceiptHandle=again["ReceiptHandle"], VisibilityTimeout=0)
    (letter,) = receive(sqs, sqs.get_queue_url(QueueName=dead)["QueueUrl"])
    assert letter["Body"] == "bad"
    found = [json.loads(message.value()) for message in read_all(kafka, f"{name}.deliveries")]
    ids = {good["MessageId"]: "good", bad["MessageId"]: "bad"}
    assert [(ids[one["message_id"]], one["kind"], one["attempt"]) for one in found] == [
        ("good", "delivered", 1),
        ("bad", "delivered", 1),
        ("good", "settled", 1),
        ("bad", "returned", 1),
        ("bad", "delivered", 2),
        ("bad", "returned", 2),
        ("bad", "died", 2),
    ]
    assert (found[-1]["reason"], found[-1]["target"]) == ("attempts", dead)
    (waited,) = read_all(kafka, f"{name}.retry")
    assert waited.value() == b"bad"
    assert dict(waited.headers())["longhall.attempts"] == b"1"

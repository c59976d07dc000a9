"""FIFO queues: order inside a group, independent groups, and deduplication."""

from __future__ import annotations

from typing import Any

import pytest

from tests.clients.sqs.conftest import MakeQueue
from tests.clients.sqs.refusals import INVALID_PARAMETER, MISSING_PARAMETER, refusal
from tests.clients.sqs.words import bodies, delete, nothing_comes, receive, send


def test_order_inside_a_group(sqs: Any, fifo: str) -> None:
    sent = [send(sqs, fifo, str(number), MessageGroupId="g")[0]["SequenceNumber"] for number in range(12)]
    assert sent == sorted(sent, key=int)
    assert len(set(sent)) == 12
    got: list[str] = []
    while len(got) < 12:
        messages = receive(sqs, fifo, 1, MaxNumberOfMessages=10)
        got += bodies(messages)
        delete(sqs, fifo, messages)
    assert got == [str(number) for number in range(12)]


def test_a_group_waits_while_one_of_its_messages_is_in_flight(sqs: Any, fifo: str) -> None:
    send(sqs, fifo, "a1", "a2", MessageGroupId="a")
    send(sqs, fifo, "b1", MessageGroupId="b")
    (first,) = receive(sqs, fifo, VisibilityTimeout=600)
    assert first["Body"] == "a1"
    (other,) = receive(sqs, fifo, VisibilityTimeout=600)
    assert other["Body"] == "b1"
    assert nothing_comes(sqs, fifo)
    delete(sqs, fifo, [first])
    assert bodies(receive(sqs, fifo)) == ["a2"]


def test_a_message_that_is_given_back_is_delivered_first(sqs: Any, fifo: str) -> None:
    send(sqs, fifo, "1", "2", "3", MessageGroupId="g")
    (first,) = receive(sqs, fifo)
    sqs.change_message_visibility(QueueUrl=fifo, ReceiptHandle=first["ReceiptHandle"], VisibilityTimeout=0)
    assert bodies(sqs.receive_message(QueueUrl=fifo, MaxNumberOfMessages=10)["Messages"]) == ["1", "2", "3"]


def test_messages_have_their_position(sqs: Any, fifo: str) -> None:
    (sent,) = send(sqs, fifo, "x", MessageGroupId="group!", MessageDeduplicationId="once")
    (message,) = receive(sqs, fifo, MessageSystemAttributeNames=["All"])
    said = message["Attributes"]
    assert said["MessageGroupId"] == "group!"
    assert said["MessageDeduplicationId"] == "once"
    assert said["SequenceNumber"] == sent["SequenceNumber"]


def test_the_same_id_is_taken_once(sqs: Any, fifo: str) -> None:
    first = send(sqs, fifo, "one", MessageGroupId="g", MessageDeduplicationId="id")[0]
    again = send(sqs, fifo, "another body", MessageGroupId="g", MessageDeduplicationId="id")[0]
    assert again["MessageId"] == first["MessageId"]
    assert again["SequenceNumber"] == first["SequenceNumber"]
    messages = receive(sqs, fifo)
    assert bodies(messages) == ["one"]
    delete(sqs, fifo, messages)
    send(sqs, fifo, "one", MessageGroupId="g", MessageDeduplicationId="id")
    assert nothing_comes(sqs, fifo)


def test_the_same_body_is_taken_once_whatever_its_attributes(sqs: Any, fifo: str) -> None:
    send(sqs, fifo, "body", MessageGroupId="g")
    send(sqs, fifo, "body", MessageGroupId="h", MessageAttributes={"a": {"DataType": "String", "StringValue": "v"}})
    send(sqs, fifo, "body", MessageGroupId="g", MessageDeduplicationId="of-its-own")
    got = sqs.receive_message(QueueUrl=fifo, MaxNumberOfMessages=10)["Messages"]
    assert len(got) == 2


def test_ids_are_of_the_queue_or_of_the_group(sqs: Any, make_queue: MakeQueue) -> None:
    by_queue = make_queue(fifo=True)
    by_group = make_queue(fifo=True, DeduplicationScope="messageGroup")
    for url in (by_queue, by_group):
        send(sqs, url, "a", MessageGroupId="a", MessageDeduplicationId="id")
        send(sqs, url, "b", MessageGroupId="b", MessageDeduplicationId="id")
    assert len(sqs.receive_message(QueueUrl=by_queue, MaxNumberOfMessages=10)["Messages"]) == 1
    assert len(receive(sqs, by_group, 2)) == 2


def test_a_batch_keeps_its_order_and_drops_repeats(sqs: Any, fifo: str) -> None:
    wanted = [{"Id": str(n), "MessageBody": str(n % 8), "MessageGroupId": "g"} for n in range(10)]
    said = sqs.send_message_batch(QueueUrl=fifo, Entries=wanted)["Successful"]
    assert len(said) == 10
    assert said[8]["MessageId"] == said[0]["MessageId"]
    got = sqs.receive_message(QueueUrl=fifo, MaxNumberOfMessages=10)["Messages"]
    assert bodies(got) == [str(n) for n in range(8)]


def test_the_same_attempt_gets_the_same_messages(sqs: Any, fifo: str) -> None:
    send(sqs, fifo, "1", "2", MessageGroupId="g")
    how = {"QueueUrl": fifo, "MaxNumberOfMessages": 10, "ReceiveRequestAttemptId": "attempt-1"}
    first = sqs.receive_message(**how)["Messages"]
    again = sqs.receive_message(**how)["Messages"]
    assert bodies(again) == bodies(first)
    assert nothing_comes(sqs, fifo, ReceiveRequestAttemptId="attempt-2")


def test_requests_that_a_fifo_queue_refuses(sqs: Any, fifo: str, make_queue: MakeQueue) -> None:
    assert refusal(send, sqs, fifo, "no group") == MISSING_PARAMETER
    assert refusal(send, sqs, make_queue(fifo=True), "no id", MessageGroupId="g") == INVALID_PARAMETER
    assert refusal(send, sqs, fifo, "delayed", MessageGroupId="g", DelaySeconds=5) == INVALID_PARAMETER
    for wrong in ("g" * 129, "sp ace", "ümlaut"):
        assert refusal(send, sqs, fifo, "x", MessageGroupId=wrong) == INVALID_PARAMETER
        assert refusal(send, sqs, fifo, "x", MessageGroupId="g", MessageDeduplicationId=wrong) == INVALID_PARAMETER
    assert "Messages" not in sqs.receive_message(QueueUrl=fifo)
    send(sqs, fifo, "zero", MessageGroupId="g" * 128, MessageDeduplicationId="d" * 128, DelaySeconds=0)
    assert bodies(receive(sqs, fifo)) == ["zero"]


def test_requests_that_a_standard_queue_refuses(sqs: Any, queue: str) -> None:
    assert refusal(send, sqs, queue, "x", MessageDeduplicationId="id") == INVALID_PARAMETER


def test_an_attempt_of_a_standard_queue_is_a_receive_like_any_other(sqs: Any, queue: str) -> None:
    send(sqs, queue, "1", "2")
    got = [receive(sqs, queue, 1, ReceiveRequestAttemptId="attempt") for _ in range(2)]
    assert sorted(bodies(got[0] + got[1])) == ["1", "2"]


def test_a_late_receipt_of_a_fifo_queue_is_refused(sqs: Any, fifo: str) -> None:
    send(sqs, fifo, "x", MessageGroupId="g")
    (late,) = receive(sqs, fifo, VisibilityTimeout=0)
    (held,) = receive(sqs, fifo, VisibilityTimeout=600)
    assert refusal(sqs.delete_message, QueueUrl=fifo, ReceiptHandle=late["ReceiptHandle"]) == INVALID_PARAMETER
    delete(sqs, fifo, [held])


@pytest.mark.parametrize("count", [30])
def test_groups_on_a_standard_queue_ask_for_fairness(sqs: Any, queue: str, count: int) -> None:
    """A noisy group does not hold up a quiet one, and nothing is blocked or lost."""
    for number in range(count):
        send(sqs, queue, f"noisy {number}", MessageGroupId="noisy")
    send(sqs, queue, "quiet", MessageGroupId="quiet")
    got = receive(sqs, queue, count + 1, MessageSystemAttributeNames=["MessageGroupId"])
    assert sorted(bodies(got)) == sorted([*(f"noisy {number}" for number in range(count)), "quiet"])
    assert {each["Attributes"]["MessageGroupId"] for each in got} == {"noisy", "quiet"}

"""Dead letters: after so many receives, with their origin, and redriven by the three calls of a move."""

from __future__ import annotations

from typing import Any

import pytest

from tests.clients.conftest import FreshName, eventually
from tests.clients.sqs.conftest import MakeQueue
from tests.clients.sqs.refusals import INVALID_PARAMETER, NO_RESOURCE, refusal
from tests.clients.sqs.words import arn, attribute, bodies, nothing_comes, receive, redrive, send


@pytest.fixture
def pair(sqs: Any, make_queue: MakeQueue) -> tuple[str, str]:
    """A queue, and the one where its dead letters go after two receives."""
    dead = make_queue()
    source = make_queue(VisibilityTimeout=0, RedrivePolicy=redrive(sqs, dead, 2))
    return source, dead


def die(sqs: Any, source: str, *texts: str) -> None:
    send(sqs, source, *texts)
    for _ in range(2):
        receive(sqs, source, len(texts), VisibilityTimeout=0)
    assert nothing_comes(sqs, source)


def test_a_message_is_dead_lettered_after_two_receives(sqs: Any, pair: tuple[str, str]) -> None:
    source, dead = pair
    (sent,) = send(sqs, source, "poison", MessageAttributes={"a": {"DataType": "String", "StringValue": "v"}})
    for count in ("1", "2"):
        (message,) = receive(sqs, source, MessageSystemAttributeNames=["All"])
        assert message["Attributes"]["ApproximateReceiveCount"] == count
    assert nothing_comes(sqs, source)
    (letter,) = receive(sqs, dead, MessageSystemAttributeNames=["All"], MessageAttributeNames=["All"])
    assert letter["Body"] == "poison"
    assert letter["MessageId"] == sent["MessageId"]
    assert letter["MessageAttributes"]["a"]["StringValue"] == "v"
    assert letter["Attributes"]["DeadLetterQueueSourceArn"] == arn(sqs, source)
    assert letter["Attributes"]["ApproximateReceiveCount"] == "3"  # It goes on: it is the same message.
    assert letter["Attributes"]["SentTimestamp"] == message["Attributes"]["SentTimestamp"]
    first = "ApproximateFirstReceiveTimestamp"
    assert letter["Attributes"][first] == message["Attributes"][first]
    assert attribute(sqs, source, "ApproximateNumberOfMessages") == "0"


def test_a_deleted_message_is_no_dead_letter(sqs: Any, pair: tuple[str, str]) -> None:
    source, dead = pair
    send(sqs, source, "fine")
    receive(sqs, source)
    (message,) = receive(sqs, source, VisibilityTimeout=60)
    sqs.delete_message(QueueUrl=source, ReceiptHandle=message["ReceiptHandle"])
    assert nothing_comes(sqs, dead)


def test_fifo_dead_letters_keep_their_order(sqs: Any, make_queue: MakeQueue) -> None:
    dead = make_queue(fifo=True)
    source = make_queue(fifo=True, ContentBasedDeduplication="true", RedrivePolicy=redrive(sqs, dead, 1))
    send(sqs, source, "1", "2", "3", MessageGroupId="g")
    receive(sqs, source, 3, VisibilityTimeout=0)
    assert nothing_comes(sqs, source)
    letters = sqs.receive_message(
        QueueUrl=dead, MaxNumberOfMessages=10, WaitTimeSeconds=1, MessageSystemAttributeNames=["All"]
    )["Messages"]
    assert bodies(letters) == ["1", "2", "3"]
    assert {letter["Attributes"]["MessageGroupId"] for letter in letters} == {"g"}


def test_a_fifo_dead_letter_has_its_message_id_as_its_deduplication_id(sqs: Any, make_queue: MakeQueue) -> None:
    dead = make_queue(fifo=True)
    source = make_queue(fifo=True, RedrivePolicy=redrive(sqs, dead, 1))
    sent = sqs.send_message(QueueUrl=source, MessageBody="m", MessageGroupId="g", MessageDeduplicationId="mine")
    (message,) = receive(sqs, source, 1, VisibilityTimeout=0, MessageSystemAttributeNames=["All"])
    assert message["Attributes"]["MessageDeduplicationId"] == "mine"
    assert nothing_comes(sqs, source)
    sqs.send_message(QueueUrl=dead, MessageBody="direct", MessageGroupId="h", MessageDeduplicationId="mine")
    letters = receive(sqs, dead, 2, MessageSystemAttributeNames=["All"])
    ids = {letter["Body"]: letter["Attributes"]["MessageDeduplicationId"] for letter in letters}
    assert ids == {"m": sent["MessageId"], "direct": "mine"}


def test_sources_are_listed(sqs: Any, make_queue: MakeQueue) -> None:
    dead = make_queue()
    sources = sorted(make_queue(RedrivePolicy=redrive(sqs, dead, 3)) for _ in range(3))
    assert sorted(sqs.list_dead_letter_source_queues(QueueUrl=dead)["queueUrls"]) == sources
    page = sqs.list_dead_letter_source_queues(QueueUrl=dead, MaxResults=2)
    assert len(page["queueUrls"]) == 2
    rest = sqs.list_dead_letter_source_queues(QueueUrl=dead, MaxResults=2, NextToken=page["NextToken"])
    assert sorted(page["queueUrls"] + rest["queueUrls"]) == sources
    assert not sqs.list_dead_letter_source_queues(QueueUrl=sources[0])["queueUrls"]


def _task(sqs: Any, dead: str) -> dict[str, Any]:
    return dict(sqs.list_message_move_tasks(SourceArn=arn(sqs, dead))["Results"][0])


def test_dead_letters_are_redriven_to_their_source(sqs: Any, pair: tuple[str, str]) -> None:
    source, dead = pair
    die(sqs, source, "a", "b", "c")
    assert sqs.start_message_move_task(SourceArn=arn(sqs, dead))["TaskHandle"]
    eventually(lambda: _task(sqs, dead)["Status"] == "COMPLETED", "the task is done")
    task = _task(sqs, dead)
    assert task["ApproximateNumberOfMessagesMoved"] == 3
    assert task["SourceArn"] == arn(sqs, dead)
    assert "TaskHandle" not in task
    assert task["StartedTimestamp"] > 1_700_000_000_000
    back = receive(sqs, source, 3, VisibilityTimeout=60, MessageSystemAttributeNames=["ApproximateReceiveCount"])
    assert sorted(bodies(back)) == ["a", "b", "c"]
    assert {message["Attributes"]["ApproximateReceiveCount"] for message in back} == {"1"}
    assert nothing_comes(sqs, dead)


def test_dead_letters_are_redriven_to_a_chosen_queue(sqs: Any, pair: tuple[str, str], make_queue: MakeQueue) -> None:
    source, dead = pair
    other = make_queue()
    die(sqs, source, "a")
    sqs.start_message_move_task(SourceArn=arn(sqs, dead), DestinationArn=arn(sqs, other))
    assert bodies(receive(sqs, other)) == ["a"]
    eventually(lambda: _task(sqs, dead)["Status"] == "COMPLETED", "the task is done")
    assert _task(sqs, dead)["DestinationArn"] == arn(sqs, other)


def test_a_slow_move_is_seen_and_cancelled(sqs: Any, pair: tuple[str, str]) -> None:
    source, dead = pair
    texts = [str(number) for number in range(20)]
    die(sqs, source, *texts)
    handle = sqs.start_message_move_task(SourceArn=arn(sqs, dead), MaxNumberOfMessagesPerSecond=1)["TaskHandle"]
    task = _task(sqs, dead)
    assert task["Status"] == "RUNNING"
    assert task["TaskHandle"] == handle
    assert task["MaxNumberOfMessagesPerSecond"] == 1
    assert task["ApproximateNumberOfMessagesToMove"] == 20
    assert refusal(sqs.start_message_move_task, SourceArn=arn(sqs, dead)) == INVALID_PARAMETER
    moved = sqs.cancel_message_move_task(TaskHandle=handle)["ApproximateNumberOfMessagesMoved"]
    assert moved < 20
    eventually(lambda: _task(sqs, dead)["Status"] == "CANCELLED", "the task is cancelled")
    assert refusal(sqs.cancel_message_move_task, TaskHandle=handle) == NO_RESOURCE
    left = receive(sqs, dead, 20 - int(_task(sqs, dead)["ApproximateNumberOfMessagesMoved"]))
    back = sqs.receive_message(QueueUrl=source, MaxNumberOfMessages=10, VisibilityTimeout=60).get("Messages", [])
    assert sorted(bodies(left + back)) == sorted(texts)


def test_the_newest_tasks_are_listed_first(sqs: Any, pair: tuple[str, str]) -> None:
    source, dead = pair
    for text in ("a", "b"):
        die(sqs, source, text)
        sqs.start_message_move_task(SourceArn=arn(sqs, dead))
        eventually(lambda: _task(sqs, dead)["Status"] == "COMPLETED", "the task is done")
        receive(sqs, source, VisibilityTimeout=600)
    assert len(sqs.list_message_move_tasks(SourceArn=arn(sqs, dead))["Results"]) == 1
    results = sqs.list_message_move_tasks(SourceArn=arn(sqs, dead), MaxResults=10)["Results"]
    assert len(results) == 2
    assert results[0]["StartedTimestamp"] >= results[1]["StartedTimestamp"]


def test_moves_that_are_refused(sqs: Any, pair: tuple[str, str], queue: str, fresh_name: FreshName) -> None:
    _, dead = pair
    absent = arn(sqs, dead).rsplit(":", 1)[0] + ":" + fresh_name("absent")
    assert refusal(sqs.start_message_move_task, SourceArn=absent) == NO_RESOURCE
    assert refusal(sqs.start_message_move_task, SourceArn=arn(sqs, dead), DestinationArn=absent) == NO_RESOURCE
    assert refusal(sqs.list_message_move_tasks, SourceArn=absent) == NO_RESOURCE
    assert refusal(sqs.start_message_move_task, SourceArn=arn(sqs, queue)) == INVALID_PARAMETER
    for rate in (0, 501):
        assert (
            refusal(sqs.start_message_move_task, SourceArn=arn(sqs, dead), MaxNumberOfMessagesPerSecond=rate)
            == INVALID_PARAMETER
        )
    assert refusal(sqs.cancel_message_move_task, TaskHandle="nonsense") == INVALID_PARAMETER
    assert refusal(sqs.list_message_move_tasks, SourceArn=arn(sqs, dead), MaxResults=11) == INVALID_PARAMETER


def test_a_queue_loses_nothing_without_its_dead_letter_queue(sqs: Any, pair: tuple[str, str]) -> None:
    source, dead = pair
    sqs.send_message(QueueUrl=source, MessageBody="kept")
    sqs.delete_queue(QueueUrl=dead)
    for _ in range(6):
        (message,) = sqs.receive_message(QueueUrl=source, VisibilityTimeout=0, WaitTimeSeconds=5)["Messages"]
        assert message["Body"] == "kept"

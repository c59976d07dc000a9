"""Share consumers of librdkafka and SQS consumers take turns on one queue: one cursor, the same leases and attempts."""

from __future__ import annotations

import json
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import AcknowledgeType, ShareConsumer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.clients.conftest import WAIT_SECONDS, FreshName
from tests.clients.java_program import java_command
from tests.clients.sqs.conftest import MakeQueue
from tests.clients.sqs.words import arn, attribute, delete, receive, send

COUNT = "ApproximateReceiveCount"


def _name(url: str) -> str:
    return url.rpartition("/")[2]


@contextmanager
def _member(kafka: str, group: str, queue: str) -> Iterator[ShareConsumer]:
    settings = {"bootstrap.servers": kafka, "group.id": group, "share.acknowledgement.mode": "explicit"}
    with ShareConsumer(settings) as member:
        member.subscribe([_name(queue)])
        yield member


def _poll(member: ShareConsumer, count: int) -> list[Any]:
    """At least so many messages; those of earlier polls are accepted."""
    found: list[Any] = []
    deadline = time.monotonic() + WAIT_SECONDS
    while len(found) < count:
        assert time.monotonic() < deadline, f"only {len(found)} of {count} messages came"
        fresh = list(member.poll(timeout=0.5))
        assert all(message.error() is None for message in fresh)
        found += fresh
        if fresh and len(found) < count:
            _acknowledge(member, fresh)
    return found


def _acknowledge(member: ShareConsumer, messages: list[Any], kind: Any = AcknowledgeType.ACCEPT) -> None:
    for message in messages:
        member.acknowledge(message, kind)
    assert set(member.commit_sync().values()) <= {None}


def test_every_message_goes_to_one_of_both(sqs: Any, queue: str, kafka: str, fresh_name: FreshName) -> None:
    bodies = [f"m{number}" for number in range(60)]
    given: Counter[str] = Counter()
    shares: Counter[str] = Counter()
    with _member(kafka, fresh_name("share"), queue) as member:
        for start in range(0, 60, 10):
            send(sqs, queue, *bodies[start : start + 10])
        deadline = time.monotonic() + WAIT_SECONDS
        while len(given) < len(bodies) and time.monotonic() < deadline:
            messages = sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=3).get("Messages", [])
            given.update(message["Body"] for message in messages)
            shares["sqs"] += len(messages)
            if messages:
                delete(sqs, queue, messages)
            polled = list(member.poll(timeout=0.1))
            given.update(message.value().decode() for message in polled)
            shares["share"] += len(polled)
            if polled:
                _acknowledge(member, polled)
    assert given == Counter(bodies)
    assert shares["share"] > 0
    assert shares["sqs"] > 0
    assert "Messages" not in sqs.receive_message(QueueUrl=queue)


def test_what_one_has_leased_the_other_does_not_get(
    sqs: Any, make_queue: MakeQueue, kafka: str, fresh_name: FreshName
) -> None:
    queue = make_queue(VisibilityTimeout=60)
    send(sqs, queue, "with sqs")
    (leased,) = receive(sqs, queue)
    with _member(kafka, fresh_name("share"), queue) as member:
        assert not list(member.poll(timeout=2.0))
        send(sqs, queue, "with the group")
        (message,) = _poll(member, 1)
        assert message.value() == b"with the group"
        assert "Messages" not in sqs.receive_message(QueueUrl=queue, WaitTimeSeconds=1)
        _acknowledge(member, [message])
    delete(sqs, queue, [leased])


def test_attempts_count_together_and_end_in_the_dead_letter_queue(
    sqs: Any, make_queue: MakeQueue, kafka: str, fresh_name: FreshName
) -> None:
    letters = make_queue()
    policy = json.dumps({"deadLetterTargetArn": arn(sqs, letters), "maxReceiveCount": "3"})
    queue = make_queue(RedrivePolicy=policy)
    send(sqs, queue, "poison")
    (first,) = receive(sqs, queue, MessageSystemAttributeNames=[COUNT])
    assert first["Attributes"][COUNT] == "1"
    sqs.change_message_visibility(QueueUrl=queue, ReceiptHandle=first["ReceiptHandle"], VisibilityTimeout=0)
    with _member(kafka, fresh_name("share"), queue) as member:
        _acknowledge(member, _poll(member, 1), AcknowledgeType.RELEASE)
        (third,) = _poll(member, 1)
        assert third.value() == b"poison"
        assert third.delivery_count() == 3
        _acknowledge(member, [third], AcknowledgeType.RELEASE)
        assert not list(member.poll(timeout=0.5))
    (letter,) = receive(sqs, letters, MessageSystemAttributeNames=["All"])
    assert letter["Body"] == "poison"


def test_a_rejected_message_is_a_dead_letter_at_once(
    sqs: Any, make_queue: MakeQueue, kafka: str, fresh_name: FreshName
) -> None:
    letters = make_queue()
    queue = make_queue(RedrivePolicy=json.dumps({"deadLetterTargetArn": arn(sqs, letters), "maxReceiveCount": "10"}))
    send(sqs, queue, "unreadable")
    with _member(kafka, fresh_name("share"), queue) as member:
        _acknowledge(member, _poll(member, 1), AcknowledgeType.REJECT)
    (letter,) = receive(sqs, letters)
    assert letter["Body"] == "unreadable"
    assert "Messages" not in sqs.receive_message(QueueUrl=queue)


def test_members_and_sqs_consumers_get_higher_priorities_first(
    sqs: Any, make_queue: MakeQueue, kafka: str, fresh_name: FreshName
) -> None:
    """A member knows a message with a priority by its offset in the partition; the lease is the one that SQS sees."""
    letters = make_queue()
    policy = json.dumps({"deadLetterTargetArn": arn(sqs, letters), "maxReceiveCount": "2"})
    queue = make_queue(LonghallPriorities="3", RedrivePolicy=policy)
    for body, priority in (("low", "0"), ("middle", "1"), ("high", "2"), ("highest", "2")):
        attributes = {"longhall.priority": {"DataType": "Number", "StringValue": priority}}
        sqs.send_message(QueueUrl=queue, MessageBody=body, MessageAttributes=attributes if priority != "0" else {})
    (first,) = receive(sqs, queue, MessageSystemAttributeNames=[COUNT])
    assert first["Body"] == "high"
    with _member(kafka, fresh_name("share"), queue) as member:
        got = _poll(member, 3)
        assert [message.value() for message in got[:2]] in ([b"middle", b"highest"], [b"highest", b"middle"])
        assert got[2].value() == b"low"
        assert sorted(message.offset() for message in got) == [0, 1, 3]
        _acknowledge(member, got[2:])
        sqs.change_message_visibility(QueueUrl=queue, ReceiptHandle=first["ReceiptHandle"], VisibilityTimeout=0)
        (again,) = _poll(member, 1)
        assert (again.value(), again.offset(), again.delivery_count()) == (b"high", 2, 2)
        _acknowledge(member, [again], AcknowledgeType.RELEASE)
        assert not list(member.poll(timeout=0.5))
    (letter,) = receive(sqs, letters)
    assert letter["Body"] == "high"
    assert "Messages" not in sqs.receive_message(QueueUrl=queue)


def test_a_member_that_closes_returns_what_it_holds(sqs: Any, queue: str, kafka: str, fresh_name: FreshName) -> None:
    send(sqs, queue, "held")
    with _member(kafka, fresh_name("share"), queue) as member:
        assert [message.value() for message in _poll(member, 1)] == [b"held"]
    (message,) = receive(sqs, queue, MessageSystemAttributeNames=[COUNT])
    assert message["Attributes"][COUNT] == "2"


def test_cursors_of_groups_are_no_queues_in_the_list(sqs: Any, kafka: str, fresh_name: FreshName, queue: str) -> None:
    topic = fresh_name("topic")
    admin = AdminClient({"bootstrap.servers": kafka})
    for future in admin.create_topics([NewTopic(topic, num_partitions=1)]).values():
        future.result(WAIT_SECONDS)
    before = sqs.list_queues()["QueueUrls"]
    with _member(kafka, fresh_name("share"), topic) as member:
        assert not list(member.poll(timeout=1.0))
    assert sqs.list_queues()["QueueUrls"] == before


@pytest.mark.slow
def test_a_java_share_consumer_and_boto3_take_turns(
    sqs: Any, make_queue: MakeQueue, kafka: str, fresh_name: FreshName, tmp_path: Path
) -> None:
    """Every good message goes to one of both, once; a poisoned one dies after three deliveries of both together."""
    letters = make_queue()
    policy = json.dumps({"deadLetterTargetArn": arn(sqs, letters), "maxReceiveCount": "3"})
    queue = make_queue(RedrivePolicy=policy)
    command = [*java_command(), "ShareTurns", kafka, fresh_name("share"), _name(queue)]
    good = {f"good-{number}" for number in range(60)}
    poison = {f"poison-{number}" for number in range(6)}
    bodies = sorted(good | poison, key=lambda body: body.rpartition("-")[2])
    send(sqs, queue, *bodies[:10])
    first = sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=2, MessageSystemAttributeNames=[COUNT])["Messages"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as java:
        try:
            assert java.stdout is not None
            output = java.stdout.readline()  # It has joined.
            by_sqs = Counter(_taken(sqs, queue, message) for message in first)
            send(sqs, queue, *bodies[10:])
            by_sqs += _take_with_sqs(sqs, queue, len(poison), letters)
            send(sqs, queue, "over")
            output += java.stdout.read()
        finally:
            java.kill()
    by_java = Counter((body, int(count)) for body, count in (line.split() for line in output.splitlines()))
    given = by_sqs + by_java
    assert max(given.values()) == 1, "a message was delivered twice under one count"
    assert {body for body, _ in given} == good | poison | {"over"}
    assert {count for body, count in given if body in good} == {1}
    for body in poison:
        assert sorted(count for one, count in given if one == body) == [1, 2, 3]
    assert by_java.keys() - {("over", 1)}, "the Java consumer got nothing"
    assert by_sqs, "boto3 got nothing"


def _taken(sqs: Any, queue: str, message: Any) -> tuple[str, int]:
    """Delete a good message and return a poisoned one; the message, and how often it has been delivered."""
    if message["Body"].startswith("poison"):
        sqs.change_message_visibility(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"], VisibilityTimeout=0)
    else:
        delete(sqs, queue, [message])
    return message["Body"], int(message["Attributes"][COUNT])


def _take_with_sqs(sqs: Any, queue: str, poisoned: int, letters: str) -> Counter[tuple[str, int]]:
    """Take messages until the queue is empty and the poisoned ones are dead letters."""
    taken: Counter[tuple[str, int]] = Counter()
    deadline = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < deadline:
        found = sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=2, MessageSystemAttributeNames=[COUNT])
        taken.update(_taken(sqs, queue, message) for message in found.get("Messages", []))
        counts = [attribute(sqs, queue, f"ApproximateNumberOfMessages{kind}") for kind in ("", "NotVisible")]
        if counts == ["0", "0"] and attribute(sqs, letters, "ApproximateNumberOfMessages") == str(poisoned):
            return taken
        time.sleep(0.05)
    raise AssertionError(f"the queue did not empty: {counts}, {taken}")

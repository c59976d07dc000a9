"""Batches: ten entries at most, each with its own result."""

from __future__ import annotations

from typing import Any

import pytest

from tests.clients.sqs.refusals import (
    BATCH_TOO_LONG,
    EMPTY_BATCH,
    IDS_NOT_DISTINCT,
    INVALID_ENTRY_ID,
    TOO_MANY_ENTRIES,
    refusal,
)
from tests.clients.sqs.words import bodies, nothing_comes, receive, send


def entries(count: int, **more: Any) -> list[dict[str, Any]]:
    return [{"Id": f"id_{number}-", "MessageBody": f"body {number}", **more} for number in range(count)]


def handles(messages: list[Any], **more: Any) -> list[dict[str, Any]]:
    return [{"Id": str(at), "ReceiptHandle": each["ReceiptHandle"], **more} for at, each in enumerate(messages)]


def test_ten_are_sent_received_changed_and_deleted(sqs: Any, queue: str) -> None:
    sent = sqs.send_message_batch(QueueUrl=queue, Entries=entries(10))
    assert not sent.get("Failed")
    assert [each["Id"] for each in sent["Successful"]] == [f"id_{number}-" for number in range(10)]
    messages = receive(sqs, queue, 10, VisibilityTimeout=600)
    assert {each["MessageId"] for each in messages} == {each["MessageId"] for each in sent["Successful"]}
    changed = sqs.change_message_visibility_batch(QueueUrl=queue, Entries=handles(messages, VisibilityTimeout=0))
    assert sorted(each["Id"] for each in changed["Successful"]) == sorted(map(str, range(10)))
    messages = receive(sqs, queue, 10, VisibilityTimeout=600)
    deleted = sqs.delete_message_batch(QueueUrl=queue, Entries=handles(messages))
    assert len(deleted["Successful"]) == 10
    assert nothing_comes(sqs, queue)


def test_each_entry_has_its_own_attributes_and_delay(sqs: Any, queue: str) -> None:
    attribute = {"n": {"DataType": "Number", "StringValue": "1"}}
    wanted = [
        {"Id": "plain", "MessageBody": "plain"},
        {"Id": "attributes", "MessageBody": "attributes", "MessageAttributes": attribute},
        {"Id": "later", "MessageBody": "later", "DelaySeconds": 600},
    ]
    sent = {each["Id"]: each for each in sqs.send_message_batch(QueueUrl=queue, Entries=wanted)["Successful"]}
    assert sent["attributes"]["MD5OfMessageAttributes"]
    assert "MD5OfMessageAttributes" not in sent["plain"]
    got = {each["Body"]: each for each in receive(sqs, queue, 2, MessageAttributeNames=["All"])}
    assert got["attributes"]["MessageAttributes"] == attribute
    assert sorted(got) == ["attributes", "plain"]


@pytest.mark.parametrize("action", ["send_message_batch", "delete_message_batch", "change_message_visibility_batch"])
def test_whole_batches_that_are_refused(sqs: Any, queue: str, action: str) -> None:
    call = getattr(sqs, action)
    more: dict[str, Any] = {"MessageBody": "b"} if action.startswith("send") else {"ReceiptHandle": "h"}
    if action.startswith("change"):
        more["VisibilityTimeout"] = 1
    assert refusal(call, QueueUrl=queue, Entries=[]) == EMPTY_BATCH
    assert (
        refusal(call, QueueUrl=queue, Entries=[{"Id": str(number), **more} for number in range(11)]) == TOO_MANY_ENTRIES
    )
    assert refusal(call, QueueUrl=queue, Entries=[{"Id": "same", **more}, {"Id": "same", **more}]) == IDS_NOT_DISTINCT
    for wrong in ("", "sp ace", "dot.ted", "x" * 81):
        assert (
            refusal(call, QueueUrl=queue, Entries=[{"Id": "fine", **more}, {"Id": wrong, **more}]) == INVALID_ENTRY_ID
        )
    assert "Messages" not in sqs.receive_message(QueueUrl=queue)


def test_the_longest_id(sqs: Any, queue: str) -> None:
    sent = sqs.send_message_batch(QueueUrl=queue, Entries=[{"Id": "x" * 80, "MessageBody": "b"}])
    assert sent["Successful"][0]["Id"] == "x" * 80


def test_a_whole_batch_has_a_mebibyte(sqs: Any, queue: str) -> None:
    half = "x" * (1 << 19)
    fits = [{"Id": "a", "MessageBody": half}, {"Id": "b", "MessageBody": half}]
    assert len(sqs.send_message_batch(QueueUrl=queue, Entries=fits)["Successful"]) == 2
    fits[1]["MessageBody"] += "x"
    assert refusal(sqs.send_message_batch, QueueUrl=queue, Entries=fits) == BATCH_TOO_LONG
    assert len(receive(sqs, queue, 2)) == 2
    assert nothing_comes(sqs, queue)


def test_one_bad_entry_does_not_affect_the_others(sqs: Any, queue: str) -> None:
    wanted = [
        {"Id": "good", "MessageBody": "good"},
        {"Id": "characters", "MessageBody": "a\x00b"},
        {"Id": "delay", "MessageBody": "x", "DelaySeconds": 901},
        {"Id": "attribute", "MessageBody": "x", "MessageAttributes": {"a": {"DataType": "X", "StringValue": "v"}}},
        {"Id": "fine", "MessageBody": "fine"},
    ]
    said = sqs.send_message_batch(QueueUrl=queue, Entries=wanted)
    assert [each["Id"] for each in said["Successful"]] == ["good", "fine"]
    failed = {each["Id"]: each for each in said["Failed"]}
    assert failed["characters"]["Code"] == "InvalidMessageContents"
    assert failed["delay"]["Code"] == "InvalidParameterValue"
    assert failed["attribute"]["Code"] == "InvalidParameterValue"
    assert all(each["SenderFault"] is True and each["Message"] for each in failed.values())
    assert sorted(bodies(receive(sqs, queue, 2))) == ["fine", "good"]


def test_settling_in_part(sqs: Any, queue: str) -> None:
    send(sqs, queue, "a")
    good = handles(receive(sqs, queue, VisibilityTimeout=600), VisibilityTimeout=0)
    bad = {"Id": "bad", "ReceiptHandle": "nonsense", "VisibilityTimeout": 0}
    long = {"Id": "long", "ReceiptHandle": good[0]["ReceiptHandle"], "VisibilityTimeout": 43_201}
    said = sqs.change_message_visibility_batch(QueueUrl=queue, Entries=[*good, bad, long])
    assert [each["Id"] for each in said["Successful"]] == ["0"]
    failed = {each["Id"]: each["Code"] for each in said["Failed"]}
    assert failed == {"bad": "ReceiptHandleIsInvalid", "long": "InvalidParameterValue"}
    messages = handles(receive(sqs, queue))
    said = sqs.delete_message_batch(QueueUrl=queue, Entries=[*messages, {"Id": "bad", "ReceiptHandle": "nonsense"}])
    assert [each["Id"] for each in said["Successful"]] == ["0"]
    assert [(each["Id"], each["Code"]) for each in said["Failed"]] == [("bad", "ReceiptHandleIsInvalid")]
    assert nothing_comes(sqs, queue)

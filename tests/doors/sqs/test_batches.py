"""Batches with boto3, in both protocols: rules for the whole, and a fate for each entry."""

from __future__ import annotations

from typing import Any

import pytest

from longhall.errors import Code
from tests.doors.sqs.refusing import refused, said, why
from tests.doors.sqs.running import Running


@pytest.fixture
def url(sqs: Any) -> str:
    made: str = sqs.create_queue(QueueName="orders")["QueueUrl"]
    return made


def bodies(*texts: str) -> list[dict[str, Any]]:
    return [{"Id": f"m{number}", "MessageBody": body} for number, body in enumerate(texts)]


BATCHES: dict[str, dict[str, Any]] = {
    "send_message_batch": {"MessageBody": "x"},
    "delete_message_batch": {"ReceiptHandle": "r"},
    "change_message_visibility_batch": {"ReceiptHandle": "r", "VisibilityTimeout": 1},
}


@pytest.mark.parametrize("action", BATCHES)
def test_rules_for_the_whole(sqs: Any, url: str, door: Running, action: str) -> None:
    call = getattr(sqs, action)

    def entries(*ids: str) -> list[dict[str, Any]]:
        return [{"Id": entry_id, **BATCHES[action]} for entry_id in ids]

    call(QueueUrl=url, Entries=entries(*[f"{n}" * 80 for n in range(10)]))
    before = len(door.queues.queues["orders"].sent)
    prefix = "AWS.SimpleQueueService."
    cases = [
        ([], "EmptyBatchRequest"),
        (entries(*[str(n) for n in range(11)]), "TooManyEntriesInBatchRequest"),
        (entries("a", "b", "a"), "BatchEntryIdsNotDistinct"),
        (entries("a" * 81), "InvalidBatchEntryId"),
        (entries("a", "b c"), "InvalidBatchEntryId"),
        (entries("ä"), "InvalidBatchEntryId"),
        (entries(""), "InvalidBatchEntryId"),
    ]
    for wrong, name in cases:
        assert refused(call, QueueUrl=url, Entries=wrong) == (prefix + name, 400, name)
    assert why(call, QueueUrl=url + "-absent", Entries=entries("a")) == prefix + "NonExistentQueue"
    assert len(door.queues.queues["orders"].sent) == before


def test_a_batch_has_a_size(sqs: Any, url: str, door: Running) -> None:
    attribute = {"a": {"DataType": "String", "StringValue": "b"}}  # Eight bytes.
    half = "x" * (1_048_576 // 2)
    sqs.send_message_batch(QueueUrl=url, Entries=bodies(half, half))
    entries = bodies(half, half[:-8])
    entries[0]["MessageAttributes"] = attribute
    sqs.send_message_batch(QueueUrl=url, Entries=entries)
    expected = ("AWS.SimpleQueueService.BatchRequestTooLong", 400, "BatchRequestTooLong")
    assert refused(sqs.send_message_batch, QueueUrl=url, Entries=bodies(half, half + "x")) == expected
    entries[1]["MessageBody"] += "x"
    assert refused(sqs.send_message_batch, QueueUrl=url, Entries=entries) == expected
    assert len(door.queues.queues["orders"].sent) == 4


def test_each_sent_message_has_its_own_fate(sqs: Any, url: str, door: Running) -> None:
    door.queues.refusals_of_sends = [None, Code.QUEUE_FULL]
    entries = bodies("good", "\x01", "full", "")
    entries.append({"Id": "late", "MessageBody": "x", "DelaySeconds": 901})
    entries.append(
        {"Id": "rich", "MessageBody": "y", "MessageAttributes": {"a": {"DataType": "X", "StringValue": "v"}}}
    )
    answer = sqs.send_message_batch(QueueUrl=url, Entries=entries)
    (sent,) = answer["Successful"]
    assert (sent["Id"], sent["MD5OfMessageBody"]) == ("m0", "755f85c2723bb39381c7379a604160d8")
    assert {failed["Id"]: (failed["Code"], failed["SenderFault"]) for failed in answer["Failed"]} == {
        "m1": ("InvalidMessageContents", True),
        "m2": ("OverLimit", True),
        "m3": ("EmptyValue", True),
        "late": ("InvalidParameterValue", True),
        "rich": ("InvalidParameterValue", True),
    }
    assert all(failed["Message"] for failed in answer["Failed"])
    assert [message.body for message in door.queues.queues["orders"].sent] == [b"good"]


def test_a_batch_without_failures_does_not_mention_them(sqs: Any, url: str) -> None:
    assert "Failed" not in sqs.send_message_batch(QueueUrl=url, Entries=bodies("a", "b"))
    assert "Successful" not in sqs.send_message_batch(QueueUrl=url, Entries=bodies("\x00"))


def test_a_fifo_batch_keeps_its_order(sqs: Any, door: Running) -> None:
    attributes = {"FifoQueue": "true", "ContentBasedDeduplication": "true"}
    url = sqs.create_queue(QueueName="orders.fifo", Attributes=attributes)["QueueUrl"]
    entries = [{**entry, "MessageGroupId": "g"} for entry in bodies("a", "b", "c")]
    answer = sqs.send_message_batch(QueueUrl=url, Entries=entries)
    numbers = [sent["SequenceNumber"] for sent in answer["Successful"]]
    assert numbers == sorted(numbers)
    received = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10)["Messages"]
    assert [message["Body"] for message in received] == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("lacks", "message"),
    [
        ("MessageGroupId", "The request must contain the parameter MessageGroupId."),
        ("MessageDeduplicationId", "The queue should either have ContentBasedDeduplication enabled or "),
    ],
)
def test_a_fifo_batch_in_which_an_entry_lacks_an_id_is_refused(sqs: Any, lacks: str, message: str) -> None:
    url = sqs.create_queue(QueueName="orders.fifo", Attributes={"FifoQueue": "True"})["QueueUrl"]
    entries = [{**entry, "MessageGroupId": "g", "MessageDeduplicationId": entry["Id"]} for entry in bodies("a", "b")]
    del entries[1][lacks]
    asked = {"QueueUrl": url, "Entries": entries}
    assert why(sqs.send_message_batch, **asked) == "InvalidParameterValue"
    assert said(sqs.send_message_batch, **asked).startswith(message)
    assert "Messages" not in sqs.receive_message(QueueUrl=url)


def test_deleting_and_changing_many(sqs: Any, url: str, door: Running) -> None:
    sqs.send_message_batch(QueueUrl=url, Entries=bodies("a", "b"))
    first, second = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10)["Messages"]
    door.queues.queues["orders"].superseded.add("old")
    change = [
        {"Id": "good", "ReceiptHandle": first["ReceiptHandle"], "VisibilityTimeout": 9},
        {"Id": "long", "ReceiptHandle": second["ReceiptHandle"], "VisibilityTimeout": 43_201},
        {"Id": "none", "ReceiptHandle": second["ReceiptHandle"]},
        {"Id": "wrong", "ReceiptHandle": "nonsense", "VisibilityTimeout": 9},
        {"Id": "old", "ReceiptHandle": "old", "VisibilityTimeout": 9},
    ]
    answer = sqs.change_message_visibility_batch(QueueUrl=url, Entries=change)
    assert answer["Successful"] == [{"Id": "good"}]
    assert {failed["Id"]: failed["Code"] for failed in answer["Failed"]} == {
        "long": "InvalidParameterValue",
        "none": "MissingParameter",
        "wrong": "ReceiptHandleIsInvalid",
        "old": "InvalidParameterValue",
    }
    assert door.queues.queues["orders"].changed == [(first["ReceiptHandle"], 9_000)]
    delete = [
        {"Id": "first", "ReceiptHandle": first["ReceiptHandle"]},
        {"Id": "again", "ReceiptHandle": first["ReceiptHandle"]},
        {"Id": "wrong", "ReceiptHandle": "nonsense"},
        {"Id": "old", "ReceiptHandle": "old"},
    ]
    answer = sqs.delete_message_batch(QueueUrl=url, Entries=delete)
    assert answer["Successful"] == [{"Id": "first"}, {"Id": "again"}, {"Id": "old"}]
    assert [(failed["Id"], failed["Code"]) for failed in answer["Failed"]] == [("wrong", "ReceiptHandleIsInvalid")]

"""Messages: sent, received and deleted, with their attributes, sizes and contents."""

from __future__ import annotations

import hashlib
import time
import uuid
from typing import Any

import pytest

from tests.clients.sqs.conftest import MakeQueue
from tests.clients.sqs.refusals import (
    INVALID_ATTRIBUTE_NAME,
    INVALID_CONTENTS,
    INVALID_PARAMETER,
    INVALID_RECEIPT,
    MISSING_PARAMETER,
    refusal,
)
from tests.clients.sqs.words import bodies, delete, nothing_comes, receive, send

MEBIBYTE = 1 << 20


def test_a_message_is_sent_received_and_deleted(sqs: Any, queue: str) -> None:
    (sent,) = send(sqs, queue, "hällo")
    digest = hashlib.md5("hällo".encode()).hexdigest()
    assert sent["MD5OfMessageBody"] == digest
    assert uuid.UUID(sent["MessageId"])
    assert "SequenceNumber" not in sent
    (message,) = receive(sqs, queue)
    assert (message["Body"], message["MessageId"], message["MD5OfBody"]) == ("hällo", sent["MessageId"], digest)
    assert "Attributes" not in message
    assert "MessageAttributes" not in message
    delete(sqs, queue, [message])
    assert nothing_comes(sqs, queue)


def test_an_empty_queue_answers_without_messages(sqs: Any, queue: str) -> None:
    assert "Messages" not in sqs.receive_message(QueueUrl=queue)


def test_every_character_that_xml_has(sqs: Any, queue: str) -> None:
    text = "\t\n\r ~\x7f\x85\ud7ff\ue000\ufffd\U00010000\U0010ffff <&>\"'"
    send(sqs, queue, text)
    assert receive(sqs, queue)[0]["Body"] == text


@pytest.mark.parametrize("character", ["\x00", "\x01", "\x08", "\x0b", "\x1f", "\ufffe", "\uffff"])
def test_characters_that_xml_lacks(sqs: Any, queue: str, character: str) -> None:
    assert refusal(send, sqs, queue, f"a{character}b") == INVALID_CONTENTS
    assert "Messages" not in sqs.receive_message(QueueUrl=queue)


def test_a_body_must_not_be_empty(sqs: Any, queue: str) -> None:
    assert refusal(send, sqs, queue, "") == MISSING_PARAMETER


def test_the_largest_message_and_one_byte_more(sqs: Any, queue: str) -> None:
    send(sqs, queue, "x" * MEBIBYTE)
    assert len(receive(sqs, queue)[0]["Body"]) == MEBIBYTE
    assert refusal(send, sqs, queue, "x" * (MEBIBYTE + 1)) == INVALID_PARAMETER


def test_bytes_count_and_not_characters(sqs: Any, make_queue: MakeQueue) -> None:
    url = make_queue(MaximumMessageSize=1024)
    send(sqs, url, "é" * 512)
    assert refusal(send, sqs, url, "é" * 512 + "x") == INVALID_PARAMETER


def test_attributes_count_into_the_size(sqs: Any, make_queue: MakeQueue) -> None:
    url = make_queue(MaximumMessageSize=1024)
    attribute = {"name": {"DataType": "String", "StringValue": "v" * 100}}
    used = len("name") + len("String") + 100
    send(sqs, url, "x" * (1024 - used), MessageAttributes=attribute)
    assert refusal(send, sqs, url, "x" * (1025 - used), MessageAttributes=attribute) == INVALID_PARAMETER


ATTRIBUTES = {
    "text": {"DataType": "String", "StringValue": "wörd"},
    "number": {"DataType": "Number", "StringValue": "-12.50"},
    "bytes": {"DataType": "Binary", "BinaryValue": b"\x00\xff\x10"},
    "labelled": {"DataType": "String.mine", "StringValue": "x"},
    "pre.fix.one": {"DataType": "Number.int", "StringValue": "1"},
}


def test_attributes_come_back_as_they_were(sqs: Any, queue: str) -> None:
    (sent,) = send(sqs, queue, "body", MessageAttributes=ATTRIBUTES)
    (message,) = receive(sqs, queue, MessageAttributeNames=["All"])
    assert message["MessageAttributes"] == ATTRIBUTES
    assert message["MD5OfMessageAttributes"] == sent["MD5OfMessageAttributes"]


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ([], []),
        (["All"], sorted(ATTRIBUTES)),
        ([".*"], sorted(ATTRIBUTES)),
        (["text", "absent"], ["text"]),
        (["pre.*"], ["pre.fix.one"]),
        (["pre.fix.*", "bytes"], ["bytes", "pre.fix.one"]),
    ],
)
def test_only_the_attributes_that_were_asked(sqs: Any, queue: str, asked: list[str], expected: list[str]) -> None:
    send(sqs, queue, "body", MessageAttributes=ATTRIBUTES)
    (message,) = receive(sqs, queue, MessageAttributeNames=asked)
    assert sorted(message.get("MessageAttributes", {})) == expected


def test_ten_attributes_and_no_more(sqs: Any, queue: str) -> None:
    many = {f"a{number}": {"DataType": "String", "StringValue": "v"} for number in range(11)}
    assert refusal(send, sqs, queue, "body", MessageAttributes=many) == INVALID_PARAMETER
    del many["a10"]
    send(sqs, queue, "body", MessageAttributes=many)
    assert len(receive(sqs, queue, MessageAttributeNames=["All"])[0]["MessageAttributes"]) == 10


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("a", {"DataType": "Text", "StringValue": "v"}),
        ("a", {"DataType": "", "StringValue": "v"}),
        ("a", {"DataType": "String", "StringValue": ""}),
        ("a", {"DataType": "Binary", "BinaryValue": b""}),
        ("a", {"DataType": "Number", "StringValue": "ten"}),
        ("a", {"DataType": "Number", "StringValue": "1.1e126"}),
        ("a", {"DataType": "Number.long", "StringValue": "1" + "0" * 127}),
        ("a", {"DataType": "Number", "StringValue": "-1e500"}),
        ("aws.reserved", {"DataType": "String", "StringValue": "v"}),
        ("AMAZON.reserved", {"DataType": "String", "StringValue": "v"}),
        (".dot", {"DataType": "String", "StringValue": "v"}),
        ("dot.", {"DataType": "String", "StringValue": "v"}),
        ("two..dots", {"DataType": "String", "StringValue": "v"}),
        ("sp ace", {"DataType": "String", "StringValue": "v"}),
        ("n" * 257, {"DataType": "String", "StringValue": "v"}),
    ],
)
def test_attributes_that_are_refused(sqs: Any, queue: str, name: str, value: dict[str, Any]) -> None:
    assert refusal(send, sqs, queue, "body", MessageAttributes={name: value}) == INVALID_PARAMETER


def test_system_attributes(sqs: Any, queue: str) -> None:
    before = int(time.time() * 1000) - 60_000
    trace = {"AWSTraceHeader": {"DataType": "String", "StringValue": "Root=1-5759e988-bd862e3fe1be46a994272793"}}
    (sent,) = send(sqs, queue, "body", MessageSystemAttributes=trace)
    assert sent["MD5OfMessageSystemAttributes"]
    (message,) = receive(sqs, queue, MessageSystemAttributeNames=["All"], VisibilityTimeout=0)
    first = message["Attributes"]
    assert first["ApproximateReceiveCount"] == "1"
    assert first["SenderId"]
    assert before < int(first["SentTimestamp"]) <= int(first["ApproximateFirstReceiveTimestamp"]) < before + 120_000
    assert first["AWSTraceHeader"] == trace["AWSTraceHeader"]["StringValue"]
    (message,) = receive(sqs, queue, AttributeNames=["ApproximateReceiveCount", "ApproximateFirstReceiveTimestamp"])
    assert message["Attributes"] == {
        "ApproximateReceiveCount": "2",
        "ApproximateFirstReceiveTimestamp": first["ApproximateFirstReceiveTimestamp"],
    }


def test_system_attributes_that_are_refused(sqs: Any, queue: str) -> None:
    assert (
        refusal(
            send, sqs, queue, "b", MessageSystemAttributes={"SenderId": {"DataType": "String", "StringValue": "me"}}
        )
        == INVALID_PARAMETER
    )
    assert (
        refusal(
            send,
            sqs,
            queue,
            "b",
            MessageSystemAttributes={"AWSTraceHeader": {"DataType": "Number", "StringValue": "1"}},
        )
        == INVALID_PARAMETER
    )
    assert (
        refusal(sqs.receive_message, QueueUrl=queue, MessageSystemAttributeNames=["Unheard"]) == INVALID_ATTRIBUTE_NAME
    )


@pytest.mark.parametrize(
    ("parameter", "value"),
    [
        ("MaxNumberOfMessages", 0),
        ("MaxNumberOfMessages", 11),
        ("WaitTimeSeconds", -1),
        ("WaitTimeSeconds", 21),
        ("VisibilityTimeout", -1),
        ("VisibilityTimeout", 43_201),
    ],
)
def test_receives_beyond_their_bounds(sqs: Any, queue: str, parameter: str, value: int) -> None:
    send(sqs, queue, "stays")
    assert refusal(sqs.receive_message, QueueUrl=queue, **{parameter: value}) == INVALID_PARAMETER
    assert bodies(receive(sqs, queue)) == ["stays"]


@pytest.mark.parametrize("delay", [-1, 901])
def test_delays_beyond_their_bounds(sqs: Any, queue: str, delay: int) -> None:
    assert refusal(send, sqs, queue, "body", DelaySeconds=delay) == INVALID_PARAMETER


def test_up_to_ten_at_once(sqs: Any, queue: str) -> None:
    send(sqs, queue, *(str(number) for number in range(12)))
    first = sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10, WaitTimeSeconds=1)["Messages"]
    assert len(first) <= 10
    rest = receive(sqs, queue, 12 - len(first))
    assert sorted(map(int, bodies(first + rest))) == list(range(12))


def test_deleting_twice_is_no_error(sqs: Any, queue: str) -> None:
    send(sqs, queue, "once")
    (message,) = receive(sqs, queue)
    delete(sqs, queue, [message, message])
    assert nothing_comes(sqs, queue)


@pytest.mark.parametrize("handle", ["nonsense", "AQEB" * 40])
def test_invalid_receipt_handles(sqs: Any, queue: str, handle: str) -> None:
    how = {"QueueUrl": queue, "ReceiptHandle": handle}
    assert refusal(sqs.delete_message, **how) == INVALID_RECEIPT
    assert refusal(sqs.change_message_visibility, **how, VisibilityTimeout=1) == INVALID_RECEIPT


def test_a_receipt_handle_is_valid_for_its_queue_only(sqs: Any, queue: str, make_queue: MakeQueue) -> None:
    other = make_queue()
    send(sqs, queue, "mine")
    (message,) = receive(sqs, queue, VisibilityTimeout=600)
    assert refusal(sqs.delete_message, QueueUrl=other, ReceiptHandle=message["ReceiptHandle"]) == INVALID_RECEIPT
    sqs.change_message_visibility(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"], VisibilityTimeout=0)
    assert bodies(receive(sqs, queue)) == ["mine"]


def test_requests_without_what_they_need(careless: Any, queue: str) -> None:
    assert refusal(careless.send_message, QueueUrl=queue) == MISSING_PARAMETER
    assert refusal(careless.delete_message, QueueUrl=queue) == MISSING_PARAMETER
    assert refusal(careless.create_queue) == MISSING_PARAMETER

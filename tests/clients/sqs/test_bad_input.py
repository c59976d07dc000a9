"""Bytes that no SDK would send: the right error or a closed connection, nothing changed, no other client disturbed."""

from __future__ import annotations

import json
import re
import socket
from typing import Any
from urllib.parse import urlsplit
from xml.etree import ElementTree

import pytest

from tests.clients.sqs.words import bodies, receive, send

ANSWER_SECONDS_MAX = 20.0
HEAD = (
    "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-amz-json-1.0\r\n"
    "X-Amz-Target: AmazonSQS.{action}\r\n"
)


def connect(endpoint: str) -> socket.socket:
    where = urlsplit(endpoint)
    assert where.hostname is not None
    assert where.port is not None
    return socket.create_connection((where.hostname, where.port), timeout=ANSWER_SECONDS_MAX)


def exchange(endpoint: str, sent: bytes) -> bytes:
    """Send it all and read until the answer is whole or the server closes; what it said."""
    with connect(endpoint) as connection:
        try:
            connection.sendall(sent)
        except (BrokenPipeError, ConnectionResetError):
            pass  # It may have closed before it had read all of that.
        got = b""
        while not _whole(got):
            try:
                piece = connection.recv(65536)
            except ConnectionResetError:
                break
            if not piece:
                break
            got += piece
        return got


def _whole(got: bytes) -> bool:
    head, blank, body = got.partition(b"\r\n\r\n")
    if not blank:
        return False
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            return len(body) >= int(value)
    return False


def call(endpoint: str, action: str, body: bytes) -> tuple[int, dict[str, Any], str]:
    """One JSON request; status, body and the code in the header."""
    head = HEAD.format(action=action) + f"Content-Length: {len(body)}\r\n\r\n"
    got = exchange(endpoint, head.encode() + body)
    top, _, said = got.partition(b"\r\n\r\n")
    headers = {line.partition(b":")[0].lower(): line.partition(b":")[2].strip() for line in top.split(b"\r\n")[1:]}
    return int(top.split()[1]), json.loads(said), headers.get(b"x-amzn-query-error", b"").decode()


@pytest.fixture(autouse=True)
def others_are_unaffected(sqs: Any, queue: str, bystander: None) -> Any:
    """The queue is unchanged and its other clients continue, whatever a test sends."""
    send(sqs, queue, "before")
    yield
    send(sqs, queue, "after")
    assert sorted(bodies(receive(sqs, queue, 2))) == ["after", "before"]
    assert not sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10).get("Messages")


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"nonsense",
        b'{"QueueUrl": "x",}',
        b"[]",
        b'"text"',
        b"\xff\xfe{}",
        b'{"QueueUrl": "x", "MessageBody": "\xff"}',
        b"[" * 100_000,
        b'{"a":' * 50_000,
    ],
    ids=["open", "words", "comma", "array", "string", "bytes", "encoding", "deep-array", "deep-object"],
)
def test_malformed_json(endpoint: str, body: bytes) -> None:
    status, said, _ = call(endpoint, "SendMessage", body)
    assert status == 400
    assert said["__type"].endswith("SerializationException")


@pytest.mark.parametrize(
    "members",
    [
        {"MessageBody": 5},
        {"MessageBody": ["x"]},
        {"MessageBody": "x", "DelaySeconds": "five"},
        {"MessageBody": "x", "DelaySeconds": 1.5},
        {"MessageBody": "x", "MessageAttributes": []},
        {"MessageBody": "x", "MessageAttributes": {"a": "b"}},
        {"MessageBody": "x", "MessageAttributes": {"a": {"DataType": "Binary", "BinaryValue": "not base64!"}}},
    ],
)
def test_wrong_types(endpoint: str, queue: str, members: dict[str, Any]) -> None:
    status, said, _ = call(endpoint, "SendMessage", json.dumps({"QueueUrl": queue, **members}).encode())
    assert status == 400
    assert said["__type"].endswith(("SerializationException", "InvalidParameterValueException"))


@pytest.mark.parametrize(
    ("action", "members", "kind"),
    [
        ("SendMessage", {"MessageBody": None}, "MissingRequiredParameterException"),
        ("SendMessage", {"QueueUrl": None, "MessageBody": "x"}, "MissingRequiredParameterException"),
        ("SendMessageBatch", {"Entries": None}, "EmptyBatchRequest"),
        ("DeleteMessageBatch", {"Entries": [{"Id": None, "ReceiptHandle": "x"}]}, "MissingRequiredParameterException"),
        ("TagQueue", {"Tags": {"a": None}}, "SerializationException"),
        ("SendMessageBatch", {"Entries": [None]}, "SerializationException"),
        ("SendMessage", {"MessageBody": 5, "DelaySeconds": None}, "SerializationException"),
    ],
)
def test_a_null_member_is_an_absent_one(
    endpoint: str, queue: str, action: str, members: dict[str, Any], kind: str
) -> None:
    status, said, _ = call(endpoint, action, json.dumps({"QueueUrl": queue, **members}).encode())
    assert status == 400
    assert said["__type"].endswith(f"#{kind}")


def test_a_member_that_an_entry_lacks_is_named(endpoint: str, queue: str) -> None:
    entries = [{"Id": "1", "MessageBody": "x"}, {"MessageBody": "y"}]
    status, said, _ = call(endpoint, "SendMessageBatch", json.dumps({"QueueUrl": queue, "Entries": entries}).encode())
    assert (status, said["message"]) == (
        400,
        "The request must contain the parameter SendMessageBatchRequestEntry.2.Id.",
    )
    body = json.dumps({"QueueUrl": queue, "Entries": [{"Id": "1"}]}).encode()
    said = call(endpoint, "DeleteMessageBatch", body)[1]
    assert said["message"] == "The request must contain the parameter DeleteMessageBatchRequestEntry.1.ReceiptHandle."


def test_a_message_with_null_members_is_sent(sqs: Any, endpoint: str, queue: str) -> None:
    value = {"DataType": "Binary", "BinaryValue": "AP8=", "StringListValues": None, "StringValue": None}
    members = {"MessageBody": "nulls", "MessageAttributes": {"a": value}, "MessageGroupId": None}
    body = json.dumps({"QueueUrl": queue, **members, "Entries": [{"a": None}], "Unheard": None}).encode()
    assert call(endpoint, "SendMessage", body)[0] == 200
    received = sqs.receive_message(QueueUrl=queue, MessageAttributeNames=["All"], MaxNumberOfMessages=10)["Messages"]
    (message,) = (one for one in received if one["Body"] == "nulls")
    assert message["MessageAttributes"] == {"a": {"DataType": "Binary", "BinaryValue": b"\x00\xff"}}
    for one in received:
        if one is not message:
            sqs.change_message_visibility(QueueUrl=queue, ReceiptHandle=one["ReceiptHandle"], VisibilityTimeout=0)
    sqs.delete_message(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])


@pytest.mark.parametrize("value", [{}, {"StringValue": "x"}, {"DataType": None, "StringValue": "x"}])
def test_an_attribute_without_a_type(endpoint: str, queue: str, value: dict[str, Any]) -> None:
    members = {"QueueUrl": queue, "MessageBody": "x", "MessageAttributes": {"colour": value}}
    status, said, code = call(endpoint, "SendMessage", json.dumps(members).encode())
    assert (status, code) == (400, "InvalidParameterValue;Sender")
    assert said["message"] == "The message attribute 'colour' must contain non-empty message attribute type."


def test_unknown_members_are_ignored(endpoint: str, queue: str) -> None:
    body = json.dumps({"QueueUrl": queue, "Unheard": {"of": [1]}, "AttributeNames": ["DelaySeconds"]}).encode()
    status, said, _ = call(endpoint, "GetQueueAttributes", body)
    assert (status, said) == (200, {"Attributes": {"DelaySeconds": "0"}})


@pytest.mark.parametrize("action", ["Unheard", "sendmessage", "", "SendMessage "])
def test_unknown_actions(endpoint: str, action: str) -> None:
    status, said, code = call(endpoint, action + "x", b"{}")
    assert status in (400, 404)
    assert said["__type"].endswith(("UnknownOperationException", "InvalidAction"))
    assert code.startswith("InvalidAction")


@pytest.mark.parametrize(
    ("form", "code"),
    [
        (b"Action=Unheard", "InvalidAction"),
        (b"QueueUrl=x", "MissingAction"),
        (b"Action=SendMessage&QueueUrl=x&MessageBody=%zz", None),
        (b"Action=CreateQueue", "MissingParameter"),
        (b"Action=ReceiveMessage&QueueUrl=/000000000000/q&MaxNumberOfMessages=many", None),
    ],
)
def test_malformed_forms(endpoint: str, form: bytes, code: str | None) -> None:
    head = (
        f"POST / HTTP/1.1\r\nHost: h\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: {len(form)}"
    )
    got = exchange(endpoint, head.encode() + b"\r\n\r\n" + form)
    top, _, body = got.partition(b"\r\n\r\n")
    assert 400 <= int(top.split()[1]) < 500
    said = ElementTree.fromstring(body)
    found = next(each.text for each in said.iter() if each.tag.endswith("Code"))
    assert code is None or found == code


def _request(*lines: str, body: bytes = b"{}") -> bytes:
    return (HEAD.format(action="ListQueues") + "".join(f"{line}\r\n" for line in lines) + "\r\n").encode() + body


SMUGGLED = b"0\r\n\r\nPOST / HTTP/1.1\r\nHost: h\r\nX-Amz-Target: AmazonSQS.PurgeQueue\r\nContent-Length: 0\r\n\r\n"


@pytest.mark.parametrize(
    "sent",
    [
        _request("Content-Length: 2", "Transfer-Encoding: chunked", body=SMUGGLED),
        _request("Transfer-Encoding: chunked", f"Content-Length: {len(SMUGGLED)}", body=SMUGGLED),
        _request("Content-Length: 2", "Content-Length: 40"),
        _request("Content-Length: 2, 40"),
        _request("Content-Length: +2"),
        _request("Content-Length: -2"),
        _request("Content-Length: 0x2"),
        _request("Content-Length : 2"),
        _request("Content-Length: 2", "X-Folded: a", " b"),
        _request("Transfer-Encoding: chunked, identity", body=b"2\r\n{}\r\n0\r\n\r\n"),
        _request("Transfer-Encoding: xchunked", body=b"2\r\n{}\r\n0\r\n\r\n"),
        _request("Transfer-Encoding: chunked", body=b"zz\r\n{}\r\n0\r\n\r\n"),
        _request("Transfer-Encoding: chunked", body=b"-2\r\n{}\r\n0\r\n\r\n"),
        _request("Content-Length: 2").replace(b"\r\n", b"\n"),
        b"POST / HTTP/1.1\r\nHo\x00st: h\r\nContent-Length: 2\r\n\r\n{}",
        b"GARBAGE\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 100,
    ],
    ids=[
        "length-and-chunks", "chunks-and-length", "two-lengths", "listed-lengths", "plus", "minus", "hexadecimal",
        "space-before-colon", "folded", "chunked-not-last", "unknown-coding", "chunk-size", "negative-chunk",
        "bare-newlines", "nul-in-a-name", "garbage", "tls",
    ],
)  # fmt: skip
def test_request_smuggling_is_refused(endpoint: str, sent: bytes) -> None:
    """Refused and closed: nothing behind such a request may be read as another one."""
    got = exchange(endpoint, sent)
    assert not got or 400 <= int(got.split()[1]) < 600, got
    assert got.count(b"HTTP/1.1 ") <= 1, got


def test_huge_headers(endpoint: str) -> None:
    got = exchange(endpoint, _request("Content-Length: 2", "X-Filler: " + "x" * 2_000_000))
    assert not got or int(got.split()[1]) in (400, 413, 431), got[:200]


def test_very_many_headers(endpoint: str) -> None:
    got = exchange(endpoint, _request("Content-Length: 2", *(f"X-{number}: y" for number in range(50_000))))
    assert not got or int(got.split()[1]) in (400, 413, 431), got[:200]


def test_a_body_beyond_every_limit_is_refused_before_it_is_read(endpoint: str) -> None:
    got = exchange(endpoint, _request("Content-Length: 100000000000", body=b"{"))
    assert not got or int(got.split()[1]) in (400, 413), got[:200]


def test_slow_bodies_delay_no_other_client(sqs: Any, queue: str, endpoint: str) -> None:
    slow = [connect(endpoint) for _ in range(50)]
    try:
        for connection in slow:
            connection.sendall(_request("Content-Length: 1000000", body=b'{"Queue'))
        send(sqs, queue, "beside")
        (message, *rest) = receive(sqs, queue, 2)
        assert "beside" in bodies([message, *rest])
        sqs.delete_message_batch(
            QueueUrl=queue,
            Entries=[
                {"Id": str(at), "ReceiptHandle": each["ReceiptHandle"]} for at, each in enumerate([message, *rest])
            ],
        )
        send(sqs, queue, "before")
    finally:
        for connection in slow:
            connection.close()


def test_requests_one_behind_the_other_are_answered_in_order(endpoint: str, queue: str) -> None:
    body = json.dumps({"QueueUrl": queue, "AttributeNames": ["DelaySeconds"]}).encode()
    good = (HEAD.format(action="GetQueueAttributes") + f"Content-Length: {len(body)}\r\n\r\n").encode() + body
    bad = (HEAD.format(action="GetQueueAttributes") + "Content-Length: 1\r\n\r\n{").encode()
    last = good.replace(b"Host:", b"Connection: close\r\nHost:")
    with connect(endpoint) as connection:
        connection.sendall(good + bad + last)
        got = b""
        while piece := connection.recv(65536):
            got += piece
    assert re.findall(rb"HTTP/1\.1 (\d+)", got) == [b"200", b"400", b"200"]

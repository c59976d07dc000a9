"""Valid HTTP requests with invalid contents: wrong types, odd trees, other services, malicious addresses.

Each gets a sender error in its own protocol; the node never fails, and nothing changes.
"""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

import pytest

from tests.clients.sqs.test_bad_input import HEAD, call, connect, exchange, others_are_unaffected
from tests.doors.sqs.clients import shipped_model

__all__ = ["others_are_unaffected"]  # The fixture holds for the tests of this file too.

MODEL = shipped_model()
SHAPES: dict[str, Any] = MODEL["shapes"]
SENDERS_FAULTS = (
    "SerializationException", "InvalidParameterValueException", "MissingRequiredParameterException", "InvalidAddress",
    "QueueDoesNotExist", "InvalidAttributeName", "InvalidAttributeValue", "EmptyBatchRequest", "InvalidBatchEntryId",
    "ReceiptHandleIsInvalid", "ResourceNotFoundException", "UnsupportedOperation", "InvalidMessageContents",
)  # fmt: skip
NO_QUEUE = ((404, "InvalidAddress"), (400, "AWS.SimpleQueueService.NonExistentQueue"))
WRONG: dict[str, list[Any]] = {
    "string": [5, True, 1.5, ["x"], {"x": "y"}],
    "integer": ["five", 1.5, True, [], {}, 2**63, -(2**70)],
    "boolean": ["yes", 1],
    "list": ["x", 5, {"a": 1}, [5], [None], [[]]],
    "map": ["x", 5, [1], {"a": 5}, {"a": None}, {"a": []}],
    "structure": ["x", 5, []],
    "blob": [5, "not base64!", {}],
}


def good(shape_name: str, queue: str) -> Any:
    """Some value of that shape which makes sense."""
    shape = SHAPES[shape_name]
    kind = shape["type"]
    if kind == "structure":
        return {name: good(shape["members"][name]["shape"], queue) for name in shape.get("required", [])}
    if kind == "list":
        return [good(shape["member"]["shape"], queue)]
    if kind == "map":
        return {"DelaySeconds" if "Attribute" in shape_name else "key": "1"}
    return {"integer": 1, "boolean": True, "blob": "eA=="}.get(kind, "x")


def request_of(action: str, queue: str) -> dict[str, Any]:
    members: dict[str, Any] = good(MODEL["operations"][action]["input"]["shape"], queue)
    if "QueueUrl" in members:
        members["QueueUrl"] = queue
    return members


@pytest.mark.parametrize("action", sorted(MODEL["operations"]))
def test_every_member_of_a_wrong_type(endpoint: str, queue: str, action: str) -> None:
    shape = SHAPES[MODEL["operations"][action]["input"]["shape"]]
    for member, reference in shape["members"].items():
        for wrong in WRONG[SHAPES[reference["shape"]]["type"]]:
            body = json.dumps({**request_of(action, queue), member: wrong}).encode()
            status, said, code = call(endpoint, action, body)
            assert 400 <= status < 500, (member, wrong, said)
            assert said["__type"].rpartition("#")[2] in SENDERS_FAULTS, (member, wrong, said)
            assert said["message"]
            assert code.endswith(";Sender")


@pytest.mark.parametrize(
    "body",
    [
        b'{"QueueUrl": "%b", "MessageBody": "\\ud800"}',
        b'{"QueueUrl": "%b", "MessageBody": "x", "DelaySeconds": 1e999}',
        b'{"QueueUrl": "%b", "MessageBody": "x", "DelaySeconds": NaN}',
        b'{"QueueUrl": "%b", "MessageBody": "x", "DelaySeconds": 0' + b"0" * 1000 + b"}",
        b'{"QueueUrl": "%b", "MessageBody": "x", "DelaySeconds": ' + b"9" * 5000 + b"}",
        b'{"QueueUrl": "%b", "MessageBody": "x"} {}',
        b'{"QueueUrl": "%b", "MessageBody": "x"',
        b'{"QueueUrl": "%b", "MessageBody": "x", "MessageAttributes": {"a": {"DataType": "String"}}}',
        b'\xef\xbb\xbf{"QueueUrl": "%b", "MessageBody": ""}',
    ],
)
def test_malformed_bodies_that_resemble_json(endpoint: str, queue: str, body: bytes) -> None:
    status, said, _ = call(endpoint, "SendMessage", body.replace(b"%b", queue.encode()))
    assert status == 400
    assert said["__type"].rpartition("#")[2] in SENDERS_FAULTS


@pytest.mark.parametrize(
    "target",
    [
        "DynamoDB_20120810.ListTables",
        "AmazonSQS",
        "AmazonSQS.",
        "AmazonSQS..",
        "ListQueues",
        "amazonsqs.ListQueues",
        " ",
    ],
)
def test_targets_of_other_services(endpoint: str, target: str) -> None:
    head = HEAD.format(action="X").replace("AmazonSQS.X", target)
    got = exchange(endpoint, f"{head}Content-Length: 2\r\n\r\n{{}}".encode())
    assert int(got.split()[1]) == 400
    assert b"UnknownOperationException" in got or b"MissingAction" in got or b"MalformedQuery" in got


FORMS = [
    "Attribute.1.Name=DelaySeconds&Attribute.1.Value.More=1",
    "Attribute.x.Name=DelaySeconds&Attribute.x.Value=1",
    "Attribute.-1.Name=DelaySeconds&Attribute.-1.Value=1",
    "Attribute.999999.Name=DelaySeconds&Attribute.999999.Value=1",
    "Attribute.1=DelaySeconds&Attribute.1.Value=1",
    "Attribute.1.Value=1",
    "Attribute.1.Name=DelaySeconds&Attribute.1.Value=1&Attribute.2.Name=DelaySeconds&Attribute.2.Value=2",
    "Attribute=DelaySeconds",
    "Attribute.1.2.3.4.5.6.7.8.9=x",
    "Attribute.=x&Attribute..=y",
    "Attribute.1.Name=DelaySeconds&Attribute.1.Value=1&QueueUrl.Sub=x",
    "&".join(f"Attribute.{number}.Name=a{number}" for number in range(1025)) + "&x=y" * 1024,
    "Attribute.1.Name=%ff&Attribute.1.Value=1",
    "Attribute.1.Name=Delay%zzSeconds&Attribute.1.Value=1",
    "Attribute.1.Name=DelaySeconds;Attribute.1.Value=1",
]


@pytest.mark.parametrize("form", FORMS, ids=range(len(FORMS)))
def test_invalid_json_trees(sqs: Any, endpoint: str, queue: str, form: str) -> None:
    body = f"Action=SetQueueAttributes&QueueUrl={quote(queue, safe='')}&{form}"
    got = exchange(endpoint, f"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
    assert int(got.split()[1]) == 400, got
    assert b"<Type>Sender</Type>" in got
    said = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["DelaySeconds"])["Attributes"]
    assert said == {"DelaySeconds": "0"}


def tricks(queue: str) -> Iterator[str]:
    base, _, name = queue.rpartition("/")
    yield f"{base}/{name}/.."
    yield f"{base}/{name}/../.."
    yield f"{base}/..%2f{name}"
    yield f"{base}/%2e%2e/{name}%00"
    yield f"{base}/{name}?x=y"
    yield f"{base}/{name}#x"
    yield f"{base}/{name}\\"
    yield f"{base}/{name}\x00"
    yield f"{base}/{name}\r\nX-Injected: y"
    yield f"{base}/ {name}"
    yield f"{base}/{name}."
    yield f"{base}/{name.upper()}x"
    yield f"{base}/{name}" * 1000
    yield "/" * 10_000
    yield "../../../../etc/passwd"
    yield "file:///etc/passwd"
    yield "\uff0e\uff0e\uff0f" + name


def test_malicious_addresses(endpoint: str, queue: str) -> None:
    for url in tricks(queue):
        for action, more in (("PurgeQueue", {}), ("SendMessage", {"MessageBody": "x"}), ("DeleteQueue", {})):
            status, said, code = call(endpoint, action, json.dumps({"QueueUrl": url, **more}).encode())
            assert (status, code.split(";")[0]) in NO_QUEUE, (url[:100], said)
            form = urlencode({"Action": action, "QueueUrl": url, **more})
            head = f"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: {len(form)}\r\n\r\n"
            got = exchange(endpoint, (head + form).encode())
            assert int(got.split()[1]) in (400, 404), (url[:100], got)
            assert b"X-Injected" not in got.partition(b"\r\n\r\n")[0]


@pytest.mark.parametrize("ending", ["/..", "/../x", "%00", "%2f..", "/%2e%2e", ";x", "\\", "/.", "//"])
def test_malicious_paths(endpoint: str, queue: str, ending: str) -> None:
    path = urlsplit(queue).path + ending
    form = "Action=PurgeQueue"
    head = f"POST {path} HTTP/1.1\r\nHost: h\r\nContent-Length: {len(form)}\r\n\r\n"
    got = exchange(endpoint, (head + form).encode())
    status = int(got.split()[1])
    assert (status == 404) == (b"InvalidAddress" in got), got
    assert status == 404 or (status == 400 and (b"NonExistentQueue" in got or b"not HTTP" in got)), got


@pytest.mark.parametrize("method", ["HEAD", "OPTIONS", "PUT", "DELETE", "PATCH", "TRACE"])
def test_unsupported_methods(endpoint: str, queue: str, method: str) -> None:
    path = urlsplit(queue).path
    head = f"{method} {path}?Action=PurgeQueue HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"
    with connect(endpoint) as connection:
        connection.sendall(head.encode())
        got = _all(connection)
    assert got.startswith(b"HTTP/1.1 405 ")
    assert b"\r\nAllow: GET, POST\r\n" in got
    assert got.endswith(b"\r\n\r\n") == (method == "HEAD")


def test_half_closed_connections_get_their_answer(endpoint: str, queue: str) -> None:
    body = json.dumps({"QueueUrl": queue, "AttributeNames": ["DelaySeconds"]}).encode()
    whole = (HEAD.format(action="GetQueueAttributes") + f"Content-Length: {len(body)}\r\n\r\n").encode() + body
    with connect(endpoint) as connection:
        connection.sendall(whole * 3)
        connection.shutdown(socket.SHUT_WR)
        got = _all(connection)
    assert re.findall(rb"HTTP/1\.1 (\d+)", got) == [b"200"] * 3
    for cut in (1, len(whole) // 2, len(whole) - 1):
        with connect(endpoint) as connection:
            connection.sendall(whole[:cut])
            connection.shutdown(socket.SHUT_WR)
            assert _all(connection) == b""


def test_expectations(endpoint: str, queue: str) -> None:
    body = json.dumps({"QueueUrl": queue, "AttributeNames": ["DelaySeconds"]}).encode()
    head = HEAD.format(action="GetQueueAttributes") + f"Content-Length: {len(body)}\r\n"
    with connect(endpoint) as connection:
        connection.sendall((head + "Expect: 100-continue\r\n\r\n").encode())
        assert connection.recv(65536) == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(body)
        assert connection.recv(65536).startswith(b"HTTP/1.1 200 ")
    got = exchange(endpoint, (head + "Expect: the-unexpected\r\n\r\n").encode() + body)
    assert got.startswith(b"HTTP/1.1 417 ")


def _all(connection: socket.socket) -> bytes:
    got = b""
    while piece := connection.recv(65536):
        got += piece
    return got

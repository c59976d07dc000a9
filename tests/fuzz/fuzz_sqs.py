"""Fuzz target: whatever comes to the SQS door, it answers in order, refuses, or waits for more; it keeps nothing.

The first byte chooses what is fed: bytes to the connection in pieces of some size, or a body to the decoder of an
action in either protocol, and then to its handler.
"""

from __future__ import annotations

import asyncio
import logging
from http import HTTPStatus
from typing import cast

from longhall.doors.sqs.door import Door
from longhall.doors.sqs.server import SqsServer
from longhall.doors.sqs.signing import Verifier
from longhall.doors.sqs.wire import json, query
from longhall.doors.sqs.wire.actions import ACTIONS
from longhall.doors.sqs.wire.faults import Fault, SqsError
from longhall.front.admission import Budget
from longhall.front.http import HttpConnection
from longhall.queues.settings import QueueSettings
from longhall.world.real.clock import RealClock
from longhall.world.real.entropy import RealEntropy
from tests.doors.sqs.fake_queues import FakeQueues
from tests.front.authentication import of_file

NAMES = sorted(ACTIONS)
WORDS = (
    b"Attribute MessageAttribute SendMessageBatchRequestEntry AttributeName Tag TagKey QueueUrl MessageBody Id Name "
    b"Value Key DataType StringValue BinaryValue All q String . . . = = & & 1 2 0 99999 - %00 %ff + eA=="
).split()
HEAD = b"POST / HTTP/1.1\r\nHost: x\r\nX-Amz-Target: AmazonSQS.%b\r\nContent-Length: %d\r\n\r\n%b"
JSON = b'{"QueueUrl":"q","MessageBody":"x","MessageAttributes":{"a":{"DataType":"Number.x","StringValue":"1"}}}'
FORM = b"Action=SendMessage&QueueUrl=q&MessageBody=x&MessageAttribute.1.Name=a&MessageAttribute.1.Value.DataType=String"
SIGNED = (
    b"GET /?Action=ListQueues&X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=A/20260101/r/sqs/aws4_request"
    b"&X-Amz-Date=20260101T000000Z&X-Amz-Expires=60&X-Amz-SignedHeaders=host&X-Amz-Signature=" + b"0" * 64
)
CHUNKED = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\n"
_KINDS = [
    (0, HEAD % (b"SendMessage", len(JSON), JSON) * 2),
    (0, b"GET /1/q?" + FORM + b" HTTP/1.1\r\nHost: x\r\n\r\n"),
    (0, CHUNKED + b"\r\n2\r\n{}\r\n0\r\nA: b\r\n\r\n"),
    (1, SIGNED + b" HTTP/1.1\r\nHost: x\r\n\r\n"),
    (1, HEAD % (b"ListQueues", 2, b"{}")),
    (2, JSON),
    (3, FORM),
    (4, b" Credential=A/20260101/r/sqs/aws4_request, SignedHeaders=host;x-amz-date, Signature=" + b"0" * 64),
    (5, SIGNED.partition(b"SHA256&")[2]),
    (6, bytes([0, 18, 25, 18, 9, 21, 15, 23, 0, 18, 25, 18, 10, 21, 25])),
]
SEEDS = [bytes([kind, 0]) + data for kind, data in _KINDS]


class _Transport:
    """As much of a transport as the connection touches."""

    def __init__(self) -> None:
        self.written = b""
        self.closed = False

    def write(self, data: bytes) -> None:
        assert not self.closed
        self.written += data

    def write_eof(self) -> None:
        self.closed = True

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.closed = True

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def set_write_buffer_limits(self, high: int) -> None: ...

    def get_extra_info(self, name: str) -> object:
        return ("127.0.0.1", 1)


def TestOneInput(data: bytes) -> None:
    if len(data) < 2:
        return
    kind, choice, rest = data[0] % 7, data[1], data[2:]
    name = NAMES[choice % len(NAMES)]
    if kind == 0:
        _LOOP.run_until_complete(_drive(rest, choice + 1, verifier=None))
    elif kind == 1:
        _LOOP.run_until_complete(_drive(rest, choice + 1, verifier=Verifier(of_file({"A": "s"}))))
    elif kind == 2:
        _decode(name, rest)
        _LOOP.run_until_complete(_drive(HEAD % (name.encode(), len(rest), rest), 65536, verifier=None))
    elif kind == 4:
        _signed(b"AWS4-HMAC-SHA256 " + rest if choice & 1 else rest, b"/")
    elif kind == 5:
        _signed(None, b"/?X-Amz-Algorithm=AWS4-HMAC-SHA256&" + rest)
    else:
        form = _tree(rest) if kind == 6 else rest
        form = b"Action=%b&" % name.encode() + form
        head = b"POST /1/q HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%b" % (len(form), form)
        _decode(name, form)
        _LOOP.run_until_complete(_drive(head, 65536, verifier=None))


def _tree(data: bytes) -> bytes:
    """A form out of the words that forms are made of, in any order: trees that are odd rather than none at all."""
    return b"".join(WORDS[byte % len(WORDS)] for byte in data)


def _signed(authorization: bytes | None, target: bytes) -> None:
    """Nobody who does not know the secret gets in, and whoever does not is told so as a sender."""
    headers = {b"host": b"x", b"x-amz-date": b"20260101T000000Z"}
    if authorization is not None:
        headers[b"authorization"] = authorization
    fault: Fault | None = None
    try:
        _VERIFIER.verify(b"GET", target, headers, b"", 1_767_225_600_000)
    except SqsError as error:
        fault = error.fault
    assert fault is not None, "a signature was made up"
    assert fault.sender
    assert 400 <= fault.status < 500


def _decode(name: str, body: bytes) -> None:
    """The decoders raise nothing but refusals, and give what the action takes."""
    try:
        assert type(json.decode_request(name, body)) is ACTIONS[name].request
    except SqsError:
        pass
    try:
        assert type(query.decode_request(name, query.parse_form(body))) is ACTIONS[name].request
    except SqsError:
        pass


async def _drive(data: bytes, piece_bytes: int, verifier: Verifier | None) -> None:
    queues = FakeQueues()
    server = SqsServer(Door(queues.service), Budget(1 << 20), RealClock(), RealEntropy(), verifier)
    await queues.create("q", _SETTINGS)
    connection = HttpConnection(server, asyncio.get_running_loop())
    transport = _Transport()
    connection.connection_made(cast(asyncio.Transport, transport))
    for at in range(0, len(data), piece_bytes):
        if transport.closed:
            break
        connection.data_received(data[at : at + piece_bytes])
        await asyncio.sleep(0)
    for _ in range(4):
        await asyncio.sleep(0)
    for status in transport.written.split(b"HTTP/1.1 ")[1:]:
        if status[:3].isdigit():
            assert int(status[:3]) != HTTPStatus.INTERNAL_SERVER_ERROR, transport.written[:2000]
    connection.connection_lost(None)
    await server.drain(0)
    assert server.budget.used_bytes == 0
    assert not server.connections.registered


_VERIFIER = Verifier(of_file({"A": "s"}))
_SETTINGS = QueueSettings(message_bytes_max=1 << 20)
_LOOP = asyncio.new_event_loop()
logging.getLogger("longhall.sqs").setLevel(logging.CRITICAL)

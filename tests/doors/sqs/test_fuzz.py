"""The fuzz target of the SQS door, on a few seeds of its own."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fuzz.fuzz_sqs import HEAD
from tests.fuzz.fuzz_sqs import TestOneInput as fuzz_once

JSON = b'{"QueueUrl":"q","MessageBody":"x","MessageAttributes":{"a":{"DataType":"Number.x","StringValue":"1"}}}'
FORM = b"Action=SendMessage&QueueUrl=q&MessageBody=x&MessageAttribute.1.Name=a&MessageAttribute.1.Value.DataType=String"
SIGNED = (
    b"GET /?Action=ListQueues&X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=A/20260101/r/sqs/aws4_request"
    b"&X-Amz-Date=20260101T000000Z&X-Amz-Expires=60&X-Amz-SignedHeaders=host&X-Amz-Signature=" + b"0" * 64
)
CHUNKED = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\n"
SEEDS = [
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


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes(data: bytes) -> None:
    fuzz_once(data)


@settings(deadline=None)
@given(st.sampled_from(SEEDS), st.integers(0, 255), st.integers(0, 1000), st.binary(max_size=3))
def test_seeds_with_a_few_bytes_changed(seed: tuple[int, bytes], choice: int, at: int, put: bytes) -> None:
    kind, data = seed
    at %= len(data)
    fuzz_once(bytes([kind, choice]) + data[:at] + put + data[at + 1 :])

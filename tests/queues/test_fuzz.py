"""The fuzz target of what queues read from strangers, on a few seeds of its own."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fuzz.fuzz_queues import GOOD
from tests.fuzz.fuzz_queues import TestOneInput as fuzz_once

SEEDS = [
    (0, bytes([2, 1, 3]) + b"abc" + bytes([9, 2]) + b"12" + bytes([6, 255])),
    (1, GOOD.encode()),
    (2, b'{"a": [{"numeric": [">", 1]}], "$or": [{"b": ["x"]}, {"b": [{"wildcard": "a*b"}]}]}'),
    (2, b"a > 1 AND (b LIKE 'x%' OR NOT c IN ('d', 'e')) AND $priority BETWEEN 1 AND 3 OR f IS NULL"),
    (3, b"[alice]\naws_access_key_id = A\naws_secret_access_key = s\n"),
    (3, b"[keys]\nalias/a = enabled\n"),
    (4, b'{"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Principal": "*", "Action": "sqs:*"}]}'),
    (4, b"http://127.0.0.1:9324/000000000000/orders"),
]


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes(data: bytes) -> None:
    fuzz_once(data)


@settings(deadline=None)
@given(st.sampled_from(SEEDS), st.integers(0, 1000), st.binary(max_size=3))
def test_seeds_with_a_few_bytes_changed(seed: tuple[int, bytes], at: int, put: bytes) -> None:
    kind, data = seed
    at %= len(data)
    fuzz_once(bytes([kind]) + data[:at] + put + data[at + 1 :])

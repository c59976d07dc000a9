"""The fuzz target of the HTTP port, on a few seeds of its own."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz.fuzz_http import TestOneInput as fuzz_once

SEEDS = [
    b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" * 3,
    b"HEAD /x?y#z HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
    b"POST http://x/ HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\nabc",
    b"GET / HTTP/1.1\r\nHost: x\r\nUpgrade: h2c\r\nConnection: upgrade\r\n\r\nPRI * HTTP/2.0\r\n\r\n",
    b"GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nHost: x\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
]


@given(st.binary(max_size=200))
def test_any_bytes(data: bytes) -> None:
    fuzz_once(data)


@given(st.sampled_from(SEEDS), st.integers(0, 255), st.integers(0, 400), st.binary(max_size=3))
def test_seeds_with_a_few_bytes_changed(seed: bytes, piece: int, at: int, put: bytes) -> None:
    at %= len(seed)
    fuzz_once(bytes([piece]) + seed[:at] + put + seed[at + 1 :])

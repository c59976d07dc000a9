"""The fuzz target of the SQS door, on a few seeds of its own."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fuzz.fuzz_sqs import SEEDS
from tests.fuzz.fuzz_sqs import TestOneInput as fuzz_once


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes(data: bytes) -> None:
    fuzz_once(data)


@settings(deadline=None)
@given(st.sampled_from(SEEDS), st.integers(0, 255), st.integers(0, 1000), st.binary(max_size=3))
def test_seeds_with_a_few_bytes_changed(seed: bytes, choice: int, at: int, put: bytes) -> None:
    data = seed[2:]
    at %= len(data)
    fuzz_once(bytes([seed[0], choice]) + data[:at] + put + data[at + 1 :])

"""The fuzz target of what queues read from strangers, on a few seeds of its own."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fuzz.fuzz_queues import SEEDS
from tests.fuzz.fuzz_queues import TestOneInput as fuzz_once


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes(data: bytes) -> None:
    fuzz_once(data)


@settings(deadline=None)
@given(st.sampled_from(SEEDS), st.integers(0, 1000), st.binary(max_size=3))
def test_seeds_with_a_few_bytes_changed(seed: bytes, at: int, put: bytes) -> None:
    at = 1 + at % (len(seed) - 1)
    fuzz_once(seed[:at] + put + seed[at + 1 :])

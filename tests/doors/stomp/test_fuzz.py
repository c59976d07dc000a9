"""The fuzz target of the STOMP decoders, on what Hypothesis finds."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from tests.fuzz.fuzz_stomp import SEEDS
from tests.fuzz.fuzz_stomp import TestOneInput as fuzz_once


@given(st.binary(max_size=200))
@example(SEEDS[0])
@example(SEEDS[1])
@example(SEEDS[2])
@example(SEEDS[3])
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    fuzz_once(data)

"""The fuzz target runs on a few seeds, so that it stays usable between runs of the fuzzer."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from longhall.records.batch import build_batch
from longhall.records.control import build_marker
from tests.fuzz.fuzz_records import TestOneInput as fuzz_once
from tests.records.strategies import plain

SEEDS = [build_batch(plain(3), compression=codec) for codec in range(5)] + [build_marker(True, 1, 2, 3, 4)]


@given(st.binary(max_size=200))
def test_any_bytes(data: bytes) -> None:
    fuzz_once(data)


@given(st.sampled_from(SEEDS), st.integers(0, 3), st.integers(0, 400), st.integers(0, 255))
def test_seeds_with_one_byte_changed(seed: bytes, choice: int, at: int, byte: int) -> None:
    changed = bytearray(seed)
    changed[at % len(changed)] = byte
    fuzz_once(bytes([choice]) + bytes(changed))

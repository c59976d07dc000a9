"""Varints: round trips, refusal of numbers that do not fit, and no read past the buffer."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longhall.errors import Code, LonghallError
from longhall.records.varint import (
    append_signed,
    append_signed_long,
    append_unsigned,
    read_signed,
    read_signed_long,
    read_unsigned,
)


@given(st.integers(0, 2**32 - 1), st.binary(max_size=3), st.binary(max_size=3))
def test_unsigned_round_trip(value: int, before: bytes, after: bytes) -> None:
    out = bytearray(before)
    append_unsigned(out, value)
    size = len(out) - len(before)
    assert read_unsigned(bytes(out) + after, len(before)) == (value, size)


@given(st.integers(-(2**31), 2**31 - 1), st.binary(max_size=3), st.binary(max_size=3))
def test_signed_round_trip(value: int, before: bytes, after: bytes) -> None:
    out = bytearray(before)
    append_signed(out, value)
    assert read_signed(bytes(out) + after, len(before)) == (value, len(out) - len(before))


@given(st.integers(-(2**63), 2**63 - 1), st.binary(max_size=3), st.binary(max_size=3))
def test_signed_long_round_trip(value: int, before: bytes, after: bytes) -> None:
    out = bytearray(before)
    append_signed_long(out, value)
    assert read_signed_long(bytes(out) + after, len(before)) == (value, len(out) - len(before))


@pytest.mark.parametrize(
    ("value", "spelt"),
    [(0, "00"), (-1, "01"), (1, "02"), (63, "7e"), (-64, "7f"), (64, "8001"), (2147483647, "feffffff0f"),
     (-2147483648, "ffffffff0f")],
)  # fmt: skip
def test_known_encodings(value: int, spelt: str) -> None:
    out = bytearray()
    append_signed(out, value)
    assert out.hex() == spelt
    assert read_signed(bytes.fromhex(spelt), 0) == (value, len(spelt) // 2)
    assert read_signed_long(bytes.fromhex(spelt), 0) == (value, len(spelt) // 2)


@pytest.mark.parametrize("value", [2**63 - 1, -(2**63), 2**62, -(2**62) - 1])
def test_the_longest_encodings(value: int) -> None:
    out = bytearray()
    append_signed_long(out, value)
    assert read_signed_long(bytes(out), 0) == (value, len(out))


@pytest.mark.parametrize("reader", [read_unsigned, read_signed, read_signed_long])
@pytest.mark.parametrize(
    "spelt", [b"", b"\x80", b"\xff" * 4, b"\xff" * 11, b"\x80" * 10 + b"\x01", b"\xff" * 9 + b"\x02"]
)
def test_numbers_that_do_not_fit_are_refused(reader: object, spelt: bytes) -> None:
    assert callable(reader)
    with pytest.raises(LonghallError) as caught:
        reader(spelt, 0)
    assert caught.value.code is Code.CORRUPT_MESSAGE


def test_a_32_bit_reader_refuses_33_bits() -> None:
    with pytest.raises(LonghallError):
        read_unsigned(b"\xff\xff\xff\xff\x1f", 0)


@pytest.mark.parametrize("offset", [-1, 1, 2**40])
def test_offsets_outside_the_buffer_are_refused(offset: int) -> None:
    for reader in (read_unsigned, read_signed, read_signed_long):
        with pytest.raises(LonghallError):
            reader(b"\x00", offset)


def test_writers_refuse_numbers_that_do_not_fit() -> None:
    out = bytearray()
    for value in (-1, 2**32):
        with pytest.raises(LonghallError):
            append_unsigned(out, value)
    for value in (2**31, -(2**31) - 1):
        with pytest.raises(LonghallError):
            append_signed(out, value)
    for value in (2**63, -(2**63) - 1):
        with pytest.raises(LonghallError):
            append_signed_long(out, value)
    assert not out

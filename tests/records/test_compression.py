"""Compression: round trips, both snappy dialects, and bounds on hostile input."""

from __future__ import annotations

import gzip
import os
import struct

import cramjam
import pytest
from hypothesis import given
from hypothesis import strategies as st

from longhall.errors import Code, LonghallError
from longhall.records.compression import GZIP, LZ4, NONE, SNAPPY, ZSTD, compress, decompress

CODECS = [NONE, GZIP, SNAPPY, LZ4, ZSTD]
MEBIBYTE = 1024 * 1024
HEADS = {
    NONE: b"",
    GZIP: b"\x1f\x8b\x08",
    SNAPPY: b"\x82SNAPPY\x00" + b"\x00\x00\x00\x01" * 2,
    LZ4: b"\x04\x22\x4d\x18\x60\x40\x82",
    ZSTD: b"\x28\xb5\x2f\xfd",
}


@given(st.binary(max_size=5000), st.sampled_from(CODECS))
def test_round_trip(payload: bytes, codec: int) -> None:
    assert decompress(codec, compress(codec, payload), 5000) == payload


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("payload", [b"", b"x" * (3 * MEBIBYTE), os.urandom(200_000)], ids=["empty", "even", "random"])
def test_large_and_small(codec: int, payload: bytes) -> None:
    assert decompress(codec, compress(codec, payload), 4 * MEBIBYTE) == payload


@pytest.mark.parametrize("codec", CODECS)
def test_the_bound_is_exact(codec: int) -> None:
    packed = compress(codec, b"x" * 100_000)
    assert len(decompress(codec, packed, 100_000)) == 100_000
    with pytest.raises(LonghallError) as caught:
        decompress(codec, packed, 99_999)
    assert caught.value.code is Code.MESSAGE_TOO_LARGE


@given(st.binary(max_size=300), st.sampled_from(CODECS), st.booleans())
def test_arbitrary_bytes_raise_only_longhall_errors(payload: bytes, codec: int, headed: bool) -> None:
    head = HEADS[codec] if headed else b""
    try:
        decompress(codec, head + payload, 100_000)
    except LonghallError:
        pass


@pytest.mark.parametrize("codec", [GZIP, ZSTD])
def test_a_truncated_stream_is_refused(codec: int) -> None:
    packed = compress(codec, os.urandom(1000))
    with pytest.raises(LonghallError):
        decompress(codec, packed[:-20], MEBIBYTE)


def test_unknown_codecs_are_refused() -> None:
    for codec in (-1, 5):
        with pytest.raises(LonghallError):
            compress(codec, b"")
        with pytest.raises(LonghallError):
            decompress(codec, b"", 10)


def test_raw_snappy_is_read_as_well() -> None:
    payload = b"abc" * 10_000
    assert decompress(SNAPPY, bytes(cramjam.snappy.compress_raw(payload)), MEBIBYTE) == payload


def test_a_snappy_block_with_a_wrong_size_is_refused() -> None:
    huge = b"\xff\xff\xff\xff\x0f" + b"\x00a"  # Claims 4 GiB.
    for payload in (huge, b"\x82SNAPPY\x00" + struct.pack(">iii", 1, 1, len(huge)) + huge):
        with pytest.raises(LonghallError) as caught:
            decompress(SNAPPY, payload, 2**33)
        assert caught.value.code is Code.CORRUPT_MESSAGE


@pytest.mark.parametrize("length", [-1, 5, 2**31 - 1])
def test_snappy_blocks_stay_inside_their_stream(length: int) -> None:
    payload = b"\x82SNAPPY\x00" + struct.pack(">iii", 1, 1, length) + b"\x01\x00a"
    with pytest.raises(LonghallError):
        decompress(SNAPPY, payload, MEBIBYTE)


def test_a_zstd_frame_with_a_wrong_size_is_refused() -> None:
    frame = bytearray(cramjam.zstd.compress(b"x" * 1000))
    lying = b"\x28\xb5\x2f\xfd\xe0" + (2**62).to_bytes(8, "little") + bytes(frame[6:])
    with pytest.raises(LonghallError):
        decompress(ZSTD, lying, MEBIBYTE)


def test_lz4_has_independent_blocks_for_java() -> None:
    packed = compress(LZ4, b"x" * 200_000)
    assert packed[:4] == b"\x04\x22\x4d\x18"
    assert packed[4] & 0x20
    assert packed[4] >> 6 == 1


def test_gzip_of_other_writers_is_read() -> None:
    payload = b"hello" * 1000
    assert decompress(GZIP, gzip.compress(payload), MEBIBYTE) == payload
    assert gzip.decompress(compress(GZIP, payload)) == payload

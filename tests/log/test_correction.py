"""Correction of one flipped bit in a frame; frames with other damage are not corrected."""

from __future__ import annotations

import random

from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from longhall.log.correction import correct_frame, find_bit
from longhall.log.frames import encode_batch, encode_event, encode_frame_header
from longhall.records.batch import Record, build_batch

POSITION = 123_456_789
BATCH = build_batch([Record(0, 5, b"key", random.Random(1).randbytes(600))])
BODY = encode_batch(0, 1, 7, 1, 9, len(BATCH)) + BATCH + encode_event(0, 1, 8, 1, 3, b"an event")
FRAME = encode_frame_header(POSITION, 99, 5, 3, 2, [BODY]) + BODY


@given(st.binary(min_size=1, max_size=3000), st.data())
def test_a_flipped_bit_is_found_by_its_syndrome(data: bytes, draw: st.DataObject) -> None:
    index, bit = draw.draw(st.integers(0, len(data) - 1)), draw.draw(st.integers(0, 7))
    flipped = bytearray(data)
    flipped[index] ^= 1 << bit
    assert find_bit(crc32c(data) ^ crc32c(bytes(flipped)), len(data)) == (index, bit)


def test_every_single_bit_of_a_frame_is_corrected() -> None:
    for bit in range(len(FRAME) * 8):
        flipped = bytearray(FRAME)
        flipped[bit // 8] ^= 1 << bit % 8
        assert correct_frame(b"before" + flipped + bytes(4000), 6, POSITION) == (FRAME, bit // 8), bit


def test_two_flipped_bits_are_not_corrected() -> None:
    chance = random.Random(2)
    for _ in range(500):
        first, second = chance.sample(range(len(FRAME) * 8), 2)
        flipped = bytearray(FRAME)
        for bit in (first, second):
            flipped[bit // 8] ^= 1 << bit % 8
        assert correct_frame(bytes(flipped), 0, POSITION) is None


def test_a_torn_frame_is_not_corrected() -> None:
    for size in range(0, len(FRAME), 7):
        for filler in (b"\0", b"\xff", b"old"):
            torn = FRAME[:size] + filler * len(FRAME)
            found = correct_frame(torn[: len(FRAME)], 0, POSITION)
            wrong = sum((one ^ other).bit_count() for one, other in zip(torn, FRAME, strict=False))
            assert found is None if wrong != 1 else found is not None


def test_a_frame_of_another_position_is_not_corrected() -> None:
    assert correct_frame(FRAME, 0, POSITION + 3) is None
    assert correct_frame(bytes(4000), 0, POSITION) is None
    assert correct_frame(FRAME[:40], 0, POSITION) is None

"""The bytes of the write-ahead log: frames decode to what was encoded, and other bytes do not decode."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from longhall.log.frames import (
    BATCH,
    EVENT,
    FRAME_HEADER_BYTES,
    REFERENCE,
    decode_frame,
    encode_batch,
    encode_event,
    encode_frame_header,
    encode_reference,
    frame_position,
)
from tests.examples import examples


def encode_frame(
    position: int, horizon: int, time_ms: int, incarnation: int, entries: int, pieces: list[bytes]
) -> bytes:
    """A whole frame."""
    return encode_frame_header(position, horizon, time_ms, incarnation, entries, pieces) + b"".join(pieces)


U64 = st.integers(0, 2**63 - 1)
U32 = st.integers(0, 2**32 - 1)
U16 = st.integers(0, 2**16 - 1)
U8 = st.integers(0, 255)


@given(
    U8, U16, U64, U32, U64, U64, st.binary(max_size=200), st.binary(min_size=1, max_size=50), U64, st.binary(max_size=9)
)
def test_frames_round_trip(
    flags: int,
    shard: int,
    sequence: int,
    epoch: int,
    partition: int,
    place: int,
    batch: bytes,
    event: bytes,
    position: int,
    before: bytes,
) -> None:
    entries = [
        encode_batch(flags, shard, sequence, epoch, partition, len(batch)) + batch,
        encode_reference(flags, shard, sequence, epoch, partition, place, batch),
        encode_event(flags, shard, sequence, epoch, 3, event),
    ]
    frame = encode_frame(position, 5, -7, 9, len(entries), entries)
    found = decode_frame(before + frame + b"behind", len(before), position)
    assert found is not None
    assert (found.position, found.size_bytes, found.horizon, found.time_ms, found.incarnation) == (
        position,
        len(frame),
        5,
        -7,
        9,
    )
    assert frame_position(before + frame, len(before)) == position
    assert [entry.kind for entry in found.entries] == [BATCH, REFERENCE, EVENT]
    for entry in found.entries:
        assert (entry.flags, entry.shard, entry.sequence, entry.epoch) == (flags, shard, sequence, epoch)
    first, second, third = found.entries
    assert (first.partition(), first.batch()) == (partition, batch)
    assert (second.partition(), second.segment_position(), second.batch()) == (partition, place, batch)
    assert (third.room(), third.event()) == (3, event)


def test_a_frame_is_invalid_at_another_position_truncated_or_with_a_flipped_bit() -> None:
    frame = encode_frame(640, 0, 0, 1, 1, [encode_event(0, 1, 1, 1, 0, b"event")])
    assert decode_frame(frame, 0, 640) is not None
    assert decode_frame(frame, 0, 641) is None
    for end in range(len(frame)):
        assert decode_frame(frame[:end], 0, 640) is None
    for at in range(len(frame)):
        for bit in range(8):
            changed = bytearray(frame)
            changed[at] ^= 1 << bit
            assert decode_frame(bytes(changed), 0, 640) is None


def test_the_number_of_entries_must_be_right() -> None:
    entry = encode_event(0, 1, 1, 1, 0, b"event")
    assert decode_frame(encode_frame(0, 0, 0, 1, 2, [entry]), 0, 0) is None
    assert decode_frame(encode_frame(0, 0, 0, 1, 1, [entry[:-1]]), 0, 0) is None
    farewell = decode_frame(encode_frame(0, 0, 0, 1, 0, []), 0, 0)
    assert farewell is not None
    assert (farewell.entries, farewell.size_bytes) == ([], FRAME_HEADER_BYTES)


@settings(max_examples=examples(300))
@given(st.binary(max_size=200), st.integers(0, 40))
def test_arbitrary_bytes_decode_to_nothing(data: bytes, at: int) -> None:
    decode_frame(b"LHWF" + data, min(at, len(data)), 0)
    decode_frame(data, 0, 0)

"""The seal: its layout, what it is bound to, and sealed batches that the log can handle without a key."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longhall.errors import Code, LonghallError
from longhall.records.batch import build_batch, check_batch, parse_header, read_records, with_log_append_time
from longhall.records.seal import (
    SEAL_BYTES,
    TAG_BYTES,
    Seal,
    batch_binding,
    message_binding,
    opened_batch,
    parse_seal,
    seal_of_batch,
    sealed_batch,
)
from tests.records.strategies import plain

SEAL = Seal(b"t" * 16, 7, b"p" * 16, 42)


@given(
    st.binary(min_size=16, max_size=16),
    st.integers(0, 2**32 - 1),
    st.binary(min_size=16, max_size=16),
    st.integers(0, 2**64 - 1),
)
def test_a_seal_is_read_as_it_was_written(topic_id: bytes, number: int, prefix: bytes, counter: int) -> None:
    raw = Seal(topic_id, number, prefix, counter).encode()
    assert len(raw) == SEAL_BYTES
    read = parse_seal(raw)
    assert (read.topic_id, read.key_number, read.prefix, read.counter) == (topic_id, number, prefix, counter)


def test_what_is_no_seal() -> None:
    raw = SEAL.encode()
    for bad in (b"", raw[:-1], raw + b"x"):
        with pytest.raises(LonghallError) as caught:
            parse_seal(bad)
        assert caught.value.code is Code.SEAL_BROKEN
    with pytest.raises(LonghallError) as caught:
        parse_seal(b"\x02" + raw[1:])
    assert caught.value.code is Code.UNSUPPORTED_FORMAT


def test_a_sealed_batch_is_a_batch_for_the_log_and_has_no_readable_records() -> None:
    wire = build_batch(plain(3), producer_id=5, producer_epoch=1, base_sequence=9, transactional=True)
    header = parse_header(wire, 0)
    stored = sealed_batch(header, SEAL.encode(), bytes(100) + bytes(TAG_BYTES))
    kept = check_batch(stored, 0, len(stored))
    assert kept.is_sealed
    assert kept.is_transactional
    same = ("base_offset", "last_offset_delta", "record_count", "producer_id", "producer_epoch", "base_sequence")
    assert [getattr(kept, name) for name in same] == [getattr(header, name) for name in same]
    assert seal_of_batch(stored, kept) == SEAL.encode()
    with pytest.raises(LonghallError) as caught:
        read_records(stored, 0)
    assert caught.value.code is Code.SEALED
    assert opened_batch(kept, wire[61:]) == wire


def test_a_batch_is_bound_to_what_its_producer_wrote_and_not_to_what_the_broker_sets() -> None:
    seal = SEAL.encode()
    header = parse_header(build_batch(plain(3), producer_id=5, producer_epoch=1, base_sequence=9), 0)
    bound = batch_binding(seal, 0, header)
    assert batch_binding(seal, 1, header) != bound
    for name in (
        "last_offset_delta",
        "record_count",
        "producer_id",
        "producer_epoch",
        "base_sequence",
        "base_timestamp_ms",
    ):
        before = getattr(header, name)
        setattr(header, name, before + 1)
        assert batch_binding(seal, 0, header) != bound, name
        setattr(header, name, before)
    stored = sealed_batch(header, seal, bytes(50))
    stamped = parse_header(with_log_append_time(stored, 99), 0)
    stamped.base_offset, stamped.leader_epoch = 1234, 8
    assert batch_binding(seal, 0, stamped) == bound


def test_a_message_is_bound_to_its_id_and_seal() -> None:
    other = Seal(b"t" * 16, 8, b"p" * 16, 42).encode()
    bound = message_binding(SEAL.encode(), "id")
    assert len({bound, message_binding(other, "id"), message_binding(SEAL.encode(), "id2")}) == 3

"""The records that a reader of committed records gets."""

from __future__ import annotations

import pytest

from longhall.client.fetched_records import decode_fetched
from longhall.client.records import Fetched
from longhall.errors import Code, LonghallError
from longhall.records.batch import Record, build_batch
from longhall.records.control import build_marker


def batch(offset: int, values: list[bytes], producer_id: int = -1) -> bytes:
    records = [Record(-1, 0, None, value) for value in values]
    return build_batch(records, base_offset=offset, producer_id=producer_id, transactional=producer_id >= 0)


def fetched(records: bytes, aborted: list[tuple[int, int]] | None = None) -> Fetched:
    return Fetched("t", 0, 0, 100, 100, 0, aborted or [], records)


def values(records: list[Record]) -> list[bytes | None]:
    return [record.value for record in records]


def test_aborted_ranges_are_skipped_up_to_their_markers() -> None:
    log = b"".join(
        [
            batch(0, [b"a0"], 1),
            batch(1, [b"b0"], 2),
            build_marker(False, 1, 0, 0, 0, base_offset=2),
            batch(3, [b"a1"], 1),
            build_marker(True, 1, 0, 0, 0, base_offset=4),
            build_marker(False, 2, 0, 0, 0, base_offset=5),
            batch(6, [b"plain"]),
            batch(7, [b"b1"], 2),
            build_marker(True, 2, 0, 0, 0, base_offset=8),
        ]
    )
    opened = decode_fetched(fetched(log, [(2, 1), (1, 0)]), 0)
    assert values(opened.records) == [b"a1", b"plain", b"b1"]
    assert opened.next_offset == 9
    assert values(decode_fetched(fetched(log), 0).records) == [b"a0", b"b0", b"a1", b"plain", b"b1"]


def test_reading_resumes_inside_a_batch() -> None:
    opened = decode_fetched(fetched(batch(10, [b"x", b"y", b"z"])), 11)
    assert values(opened.records) == [b"y", b"z"]
    assert opened.next_offset == 13


def test_a_partial_batch_is_left_for_the_next_fetch() -> None:
    opened = decode_fetched(fetched(batch(0, [b"x"]) + batch(1, [b"y"])[:65]), 0)
    assert values(opened.records) == [b"x"]
    assert opened.next_offset == 1


def test_an_empty_fetch_has_no_records() -> None:
    assert decode_fetched(fetched(b""), 5) == ([], 5)


@pytest.mark.parametrize("cut", [30, 65])
def test_less_than_one_batch_is_an_error(cut: int) -> None:
    with pytest.raises(LonghallError) as refusal:
        decode_fetched(fetched(batch(0, [b"x"])[:cut]), 0)
    assert refusal.value.code is Code.CORRUPT_MESSAGE


def test_a_wrong_checksum_is_an_error() -> None:
    damaged = bytearray(batch(0, [b"x" * 50]))
    damaged[-5] ^= 1
    with pytest.raises(LonghallError) as refusal:
        decode_fetched(fetched(bytes(damaged)), 0)
    assert refusal.value.code is Code.CORRUPT_MESSAGE

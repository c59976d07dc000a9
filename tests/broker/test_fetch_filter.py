"""Fetched batches lose what a reader does not want and nothing else."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longhall.broker import fetch_filter
from longhall.errors import Code, LonghallError
from longhall.queues.filters import Filter
from longhall.queues.selector import compile_filter
from longhall.records.batch import build_batch, parse_header, read_records
from longhall.records.control import build_marker
from longhall.records.record import Record

OSLO = compile_filter("city = 'Oslo'")


def sifted(data: bytes, filter: Filter = OSLO) -> list[bytes]:
    return asyncio.run(fetch_filter._filtered(data, 1, filter))


@given(st.lists(st.lists(st.booleans(), min_size=1, max_size=20), min_size=1, max_size=8), st.sampled_from([0, 1, 4]))
def test_matches_keep_their_offsets_and_the_end_is_known(batches: list[list[bool]], compression: int) -> None:
    data = b""
    offset = 7
    wanted: list[tuple[int, bytes]] = []
    for fits in batches:
        records = []
        for fit in fits:
            records.append(
                Record(offset, 1000 + offset, None, b"%d" % offset, (("city", b"Oslo" if fit else b"Rome"),))
            )
            if fit:
                wanted.append((offset, b"%d" % offset))
            offset += 1
        data += build_batch(
            records,
            base_offset=records[0].offset,
            compression=compression,
            producer_id=9,
            producer_epoch=1,
            base_sequence=4,
            leader_epoch=3,
        )
    kept = sifted(data)
    headers = [parse_header(batch, 0) for batch in kept]
    assert headers[-1].next_offset == offset  # However little fits, the reader gets on.
    assert {(header.producer_id, header.base_sequence, header.leader_epoch) for header in headers} == {(9, 4, 3)}
    assert [(one.offset, one.value) for batch in kept for one in read_records(batch, 0)] == wanted


def test_markers_of_transactions_stay() -> None:
    marker = build_marker(True, 9, 1, 5, 1000)
    assert sifted(marker) == [marker]


def test_batches_that_match_completely_are_unchanged() -> None:
    batch = build_batch([Record(-1, 1, None, b"x", (("city", b"Oslo"),))])
    assert sifted(batch) == [batch]


def test_only_a_rack_with_the_prefix_is_a_filter() -> None:
    sieves = fetch_filter.FetchFilters()
    assert sieves.of("") is None
    assert sieves.of("us-east-1a") is None
    assert sieves.of("longhall.filter=city = 'Oslo'") is sieves.of("longhall.filter=city = 'Oslo'")
    with pytest.raises(LonghallError) as caught:
        sieves.of("longhall.filter=city =")
    assert caught.value.code is Code.INVALID_REQUEST
    for number in range(fetch_filter.FILTERS_MAX * 2):
        sieves.of(f"longhall.filter=n = {number}")
    assert len(sieves._known) == fetch_filter.FILTERS_MAX

"""Hypothesis strategies for records."""

from __future__ import annotations

from hypothesis import strategies as st

from longhall.records.batch import Record

INT64 = st.integers(-(2**63), 2**63 - 1)
TIMESTAMPS = st.integers(-1, 2**50)
BODIES = st.none() | st.binary(max_size=200)
HEADERS = st.lists(st.tuples(st.text(max_size=20), BODIES), max_size=4).map(tuple)
CODECS = st.sampled_from([0, 1, 2, 3, 4])


@st.composite
def records(draw: st.DrawFn, min_size: int = 1, base_offset: int = 0) -> list[Record]:
    """Records with ascending offsets from `base_offset`, with gaps as in a compacted batch."""
    out: list[Record] = []
    offset = base_offset
    for _ in range(draw(st.integers(min_size, 12))):
        out.append(Record(offset, draw(TIMESTAMPS), draw(BODIES), draw(BODIES), draw(HEADERS)))
        offset += draw(st.integers(1, 3))
    return out


def plain(count: int, base_offset: int = 0, value_bytes: int = 20) -> list[Record]:
    """Ordinary records with keys."""
    return [
        Record(base_offset + i, 1_700_000_000_000 + i, b"key-%d" % i, b"v" * value_bytes, (("trace", b"%d" % i),))
        for i in range(count)
    ]

"""Field tables and properties: they round-trip, and no bytes do more than raise MalformedTable."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longhall.exchanges.field_table import (
    DEPTH_MAX,
    MalformedTable,
    Timestamp,
    decode_table,
    decode_value,
    encode_table,
    encode_value,
    join_table,
    split_table,
)
from longhall.exchanges.names import CUT, hall_name, names_of
from longhall.exchanges.properties import (
    Properties,
    decode_properties,
    decode_stored,
    encode_properties,
    encode_stored,
)
from longhall.names import is_legal_name

short = st.text(max_size=40)
leaves = (
    st.none()
    | st.booleans()
    | st.integers(-(1 << 63), (1 << 63) - 1)
    | st.floats(allow_nan=False)
    | st.text(max_size=20)
    | st.binary(max_size=20)
    | st.integers(0, (1 << 64) - 1).map(Timestamp)
    | st.builds(
        lambda number, scale: Decimal(number).scaleb(-scale), st.integers(-(1 << 31), 2**31 - 1), st.integers(0, 9)
    )
)
values = st.recursive(leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(short, inner, max_size=3))
tables = st.dictionaries(short, values, max_size=6)


@given(tables)
def test_a_table_round_trips(table: dict[str, Any]) -> None:
    data = encode_table(table)
    assert decode_table(data) == (table, len(data))
    fields, end = split_table(data)
    assert end == len(data)
    assert join_table(fields) == data
    assert {name: decode_value(value) for name, value in fields} == table


@given(st.binary(max_size=80))
def test_any_bytes_are_a_table_or_malformed(data: bytes) -> None:
    for read in (decode_table, split_table, decode_properties, decode_stored):
        try:
            read(data)
        except MalformedTable:
            pass


def test_tables_nest_only_so_deep() -> None:
    deep: Any = {}
    for _ in range(DEPTH_MAX + 1):
        deep = {"t": deep}
    with pytest.raises(MalformedTable):
        decode_table(encode_table(deep))


def test_every_integer_type_is_read() -> None:
    data = encode_table({})
    for octet, raw, value in (
        (b"b", b"\xff", -1),
        (b"B", b"\xff", 255),
        (b"s", b"\xff\xfe", -2),
        (b"U", b"\xff\xfe", -2),
        (b"u", b"\xff\xfe", 65534),
        (b"I", b"\xff\xff\xff\xfd", -3),
        (b"i", b"\xff\xff\xff\xfd", 4294967293),
        (b"l", b"\xff" * 8, -1),
        (b"L", b"\xff" * 8, -1),
    ):
        data = join_table([("n", octet + raw)])
        assert decode_table(data)[0] == {"n": value}


def test_what_fits_no_field_is_refused() -> None:
    for value in (1 << 63, object(), Decimal("NaN"), Decimal(1).scaleb(12)):
        with pytest.raises(MalformedTable):
            encode_value(value)


texts = st.none() | short.filter(lambda text: len(text.encode()) < 256)


@given(
    texts,
    texts,
    st.none() | tables,
    st.none() | st.integers(0, 255),
    texts,
    texts,
    st.none() | st.integers(0, 2**64 - 1),
)
def test_properties_round_trip(
    content_type: str | None,
    reply_to: str | None,
    headers: dict[str, Any] | None,
    priority: int | None,
    expiration: str | None,
    app_id: str | None,
    timestamp: int | None,
) -> None:
    properties = Properties()
    properties.content_type = content_type
    properties.reply_to = reply_to
    properties.headers = encode_table(headers) if headers is not None else None
    properties.priority = priority
    properties.expiration = expiration
    properties.app_id = app_id
    properties.timestamp = timestamp
    data = encode_properties(properties)
    found = decode_properties(data)
    names = ("content_type", "reply_to", "headers", "priority", "expiration", "app_id", "timestamp")
    assert [getattr(found, name) for name in names] == [getattr(properties, name) for name in names]
    assert encode_properties(found) == data  # All other properties are absent.
    assert decode_stored(encode_stored("exchange", "key", data)) == ("exchange", "key", data)


@given(st.text(max_size=60), st.sampled_from(["/", "v", "a/b", "_-"]))
def test_a_queue_has_a_legal_name_of_its_own(name: str, host: str) -> None:
    queue = hall_name(host, name)
    assert is_legal_name(queue)
    if name not in ("", "\0") and CUT not in queue:
        assert names_of(queue) == (host, name)


def test_plain_names_stay_and_long_ones_are_cut() -> None:
    assert hall_name("/", "orders.new-1_2") == "orders.new-1_2"
    assert hall_name("/", "celery@host.pidbox") == "celery_-40host.pidbox"
    assert hall_name("/", "x" * 249) == "x" * 249
    one, other = hall_name("/", "ü" * 127), hall_name("/", "ü" * 126 + "x")
    assert one != other
    assert is_legal_name(one)
    assert is_legal_name(other)

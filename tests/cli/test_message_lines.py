"""Messages as lines make the round trip, and a malformed line is refused with its number."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longhall.cli.exits import CommandError, Exit
from longhall.cli.message_lines import (
    LineStyle,
    Message,
    json_line,
    parse_header,
    parse_json_line,
    parse_text_line,
    printable,
    text_line,
)
from longhall.records.record import Record

names = st.text(st.characters(exclude_categories=["Cs"]))
maybe_bytes = st.none() | st.binary()


@given(
    st.integers(0, 1 << 40),
    maybe_bytes,
    maybe_bytes,
    st.lists(st.tuples(names, maybe_bytes)).map(tuple),
)
def test_json_lines_of_consume_are_input_of_produce(
    timestamp_ms: int, key: bytes | None, value: bytes | None, headers: tuple[tuple[str, bytes | None], ...]
) -> None:
    line = json_line(Record(7, timestamp_ms, key, value, headers), "orders", 3)
    assert line.count(b"\n") == 1
    assert parse_json_line(line, 1) == Message(key, value, headers, 3, timestamp_ms)


def test_json_values_need_not_be_text() -> None:
    message = parse_json_line(b'{"value": {"a": [1, null]}, "headers": {"h": "x", "n": null}}', 1)
    assert message == Message(None, b'{"a":[1,null]}', (("h", b"x"), ("n", None)))


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"[]",
        b"{",
        b'"x"',
        b'{"partition": "1"}',
        b'{"timestamp_ms": true}',
        b'{"headers": 5}',
        b'{"headers": [[1]]}',
        b'{"key": {"base64": "?"}}',
        b'{"value": "\\ud800"}',
        b"\xff",
    ],
)
def test_a_malformed_line_is_refused_with_its_number(line: bytes) -> None:
    with pytest.raises(CommandError, match="line 12 ") as caught:
        parse_json_line(line, 12)
    assert caught.value.exit_code is Exit.USAGE


def test_text_lines() -> None:
    keyed = LineStyle(key_separator=b":")
    assert parse_text_line(b"a:b:c", LineStyle(), 1) == Message(None, b"a:b:c")
    assert parse_text_line(b"a:b:c", keyed, 1) == Message(b"a", b"b:c")
    assert parse_text_line(b"h=1,g\ta:b", LineStyle(b":", with_headers=True), 1) == Message(
        b"a", b"b", (("h", b"1"), ("g", None))
    )
    for line, style in ((b"no key", keyed), (b"no tab", LineStyle(with_headers=True))):
        with pytest.raises(CommandError, match="line 3 "):
            parse_text_line(line, style, 3)


def test_a_text_line_has_the_requested_parts() -> None:
    record = Record(5, 1_000, b"k", None, (("h", b"1"), ("g", None)))
    assert text_line(record, 2, LineStyle()) == b"null\n"
    everything = LineStyle(b"=", with_headers=True, with_timestamp=True, with_place=True)
    assert text_line(record, 2, everything) == b"2:5\t1970-01-01T00:00:01.000Z\th=1,g\tk=null\n"


def test_fixed_headers() -> None:
    assert parse_header("a=b=c") == ("a", b"b=c")
    assert parse_header("a") == ("a", None)
    with pytest.raises(CommandError):
        parse_header("=b")


@given(st.binary())
def test_control_characters_are_escaped_for_a_terminal(value: bytes) -> None:
    shown = printable(text_line(Record(0, 0, None, value), 0, LineStyle()))
    assert shown.endswith(b"\n")
    assert all(c.isprintable() or c == "\t" for c in shown.decode()[:-1])


def test_printable_text_is_unchanged() -> None:
    assert printable("größe\t日本\n".encode()) == "größe\t日本\n".encode()
    assert printable(b"\x1b[2Jx\xff\n") == rb"\x1b[2Jx\xff" + b"\n"
    assert json.loads(json_line(Record(0, 0, None, "ü".encode()), "t", 0))["value"] == "ü"

"""Bytes in JSON come back as they were."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from longhall.console.api.bodies import Given, Text, shown, shown_attributes, understood, understood_attributes
from longhall.errors import Code, LonghallError

numbers = st.integers(-(10**30), 10**30).map(lambda number: ("Number", str(number).encode()))
strings = st.tuples(st.sampled_from(["String", "String.json", "Number.int"]), st.text().map(str.encode))
binaries = st.tuples(st.sampled_from(["Binary", "Binary.png"]), st.binary())
odd = st.tuples(st.just("String"), st.binary())


@given(st.binary())
def test_a_body(data: bytes) -> None:
    assert understood(msgspec.json.decode(msgspec.json.encode(shown(data)), type=Text)) == data


@given(st.dictionaries(st.text(min_size=1, max_size=20), st.one_of(numbers, strings, binaries, odd), max_size=5))
def test_attributes(attributes: dict[str, tuple[str, bytes]]) -> None:
    told = msgspec.json.encode(shown_attributes(attributes))
    assert understood_attributes(msgspec.json.decode(told, type=dict[str, Given])) == attributes


def test_plain_json_values_have_the_types_that_one_expects() -> None:
    given_ = msgspec.json.decode(b'{"a": "x", "b": 5, "c": 2.5, "d": {"base64": "AAE="}}', type=dict[str, Given])
    assert understood_attributes(given_) == {
        "a": ("String", b"x"),
        "b": ("Number", b"5"),
        "c": ("Number", b"2.5"),
        "d": ("Binary", b"\x00\x01"),
    }


@pytest.mark.parametrize(
    "text", [b'{"": "x"}', b'{"a": {}}', b'{"a": {"type": "Odd", "value": "x"}}', b'{"a": {"value": "", "base64": ""}}']
)
def test_what_is_no_attribute_is_refused(text: bytes) -> None:
    with pytest.raises(LonghallError) as refused:
        understood_attributes(msgspec.json.decode(text, type=dict[str, Given]))
    assert refused.value.code is Code.INVALID_REQUEST

"""Filter policies: every condition of the table, the refusals, and that no text breaks the compiler."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longhall.errors import Code, LonghallError
from longhall.queues.envelope import Fields
from longhall.queues.filters import NESTING_MAX, TEXT_BYTES_MAX, compile_policy, wildcard_fits


def message(**attributes: str | float | bytes | list[Any]) -> Fields:
    fields = Fields(b"", b"the-key", 0)
    fields.priority = 3
    fields.group = "g1"
    for name, value in attributes.items():
        if isinstance(value, str):
            fields.attributes[name] = ("String", value.encode())
        elif isinstance(value, bytes):
            fields.attributes[name] = ("Binary", value)
        elif isinstance(value, list):
            fields.attributes[name] = ("String.Array", json.dumps(value).encode())
        else:
            fields.attributes[name] = ("Number", str(value).encode())
    return fields


WANTED = message(city="Oslo", price=12.5, count=7, tags=["red", 5, None, True], raw=b"\xff", header="42")


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ({"city": ["Oslo"]}, True),
        ({"city": ["oslo"]}, False),
        ({"city": ["Bergen", "Oslo"]}, True),
        ({"city": ["Oslo"], "count": [8]}, False),
        ({"city": ["Oslo"], "count": [7]}, True),
        ({"price": [12.50]}, True),
        ({"price": ["12.5"]}, True),
        ({"header": [42]}, True),
        ({"header": [{"numeric": [">", 41.5]}]}, True),
        ({"city": [{"prefix": "Os"}]}, True),
        ({"city": [{"suffix": "lo"}]}, True),
        ({"city": [{"suffix": "Os"}]}, False),
        ({"city": [{"equals-ignore-case": "oSLO"}]}, True),
        ({"city": [{"wildcard": "O*o"}]}, True),
        ({"city": [{"wildcard": "O*x*o"}]}, False),
        ({"city": [{"anything-but": "Oslo"}]}, False),
        ({"city": [{"anything-but": ["Bergen", "Moss"]}]}, True),
        ({"city": [{"anything-but": {"prefix": "O"}}]}, False),
        ({"city": [{"anything-but": {"suffix": ["x", "y"]}}]}, True),
        ({"missing": [{"anything-but": "x"}]}, False),
        ({"count": [{"anything-but": 7}]}, False),
        ({"count": [{"numeric": ["=", 7]}]}, True),
        ({"count": [{"numeric": [">", 0, "<=", 7]}]}, True),
        ({"count": [{"numeric": [">", 7]}]}, False),
        ({"city": [{"numeric": [">", 0]}]}, False),
        ({"city": [{"exists": True}]}, True),
        ({"city": [{"exists": False}]}, False),
        ({"missing": [{"exists": False}]}, True),
        ({"raw": [{"exists": True}]}, True),
        ({"tags": ["red"]}, True),
        ({"tags": [5]}, True),
        ({"tags": [None]}, True),
        ({"tags": [True]}, True),
        ({"tags": ["blue"]}, False),
        ({"tags": [False]}, False),
        ({"$key": [{"prefix": "the"}]}, True),
        ({"$group": ["g1"]}, True),
        ({"$priority": [{"numeric": [">=", 3]}]}, True),
        ({"$or": [{"city": ["Moss"]}, {"count": [7]}]}, True),
        ({"$or": [{"city": ["Moss"]}, {"count": [7]}], "price": [1]}, False),
        ({"$or": [{"city": ["Moss"]}, {"$or": [{"count": [1]}, {"price": [12.5]}]}]}, True),
    ],
)
def test_each_condition(policy: dict[str, Any], expected: bool) -> None:
    assert compile_policy(json.dumps(policy)).matches(WANTED) is expected


def test_numbers_are_exact() -> None:
    policy = compile_policy('{"n": [9007199254740993]}')
    fields = message()
    fields.attributes["n"] = ("Number", b"9007199254740992")
    assert not policy.matches(fields)
    fields.attributes["n"] = ("Number", b"9007199254740993.000")
    assert policy.matches(fields)
    for odd in (b"nan", b"Infinity", b"1e999999999999999999", b"1_0", b"\xd9\xa3"):
        fields.attributes["n"] = ("Number", odd)
        assert not policy.matches(fields)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "not valid JSON"),
        ("[]", "an object"),
        ("{}", "at least one name"),
        ('{"a": "x"}', "a: a name takes a list"),
        ('{"a": []}', "at least one condition"),
        ('{"a": [["x"]]}', "a[0]: a value is a text"),
        ('{"a": [{"begins": "x"}]}', "'begins' is not a condition"),
        ('{"a": [{"prefix": ""}]}', "not empty"),
        ('{"a": [{"prefix": "x", "suffix": "y"}]}', "one word"),
        ('{"a": [{"numeric": [">", "5"]}]}', "is not a number"),
        ('{"a": [{"numeric": ["!", 5]}]}', "none of"),
        ('{"a": [{"numeric": [">"]}]}', "one operator"),
        ('{"a": [{"numeric": ["<", 5, ">", 1]}]}', "a range begins"),
        ('{"a": [{"numeric": [">", 5, "<", 1]}]}', "lower end"),
        ('{"a": [NaN]}', "NaN is not a number"),
        ('{"a": [1], "a": [2]}', "occurs twice"),
        ('{"a": [{"exists": 1}]}', "true or false"),
        ('{"$or": [{"a": [1]}]}', "at least two"),
        ('{"$and": [1]}', "beside attributes"),
        ('{"a": [{"wildcard": "*********"}]}', "stars"),
        (json.dumps({"a": [1] * 600}), "more than 512"),
        ("[" * 5000, "not valid JSON"),
        (" " * (TEXT_BYTES_MAX + 1), "longer than"),
    ],
)
def test_errors_name_the_reason(text: str, says: str) -> None:
    with pytest.raises(LonghallError) as refusal:
        compile_policy(text)
    assert refusal.value.code is Code.INVALID_REQUEST
    if not text.startswith("[["):
        assert says in str(refusal.value)


def test_nesting_is_bounded() -> None:
    policy: dict[str, Any] = {"a": [1]}
    for _ in range(NESTING_MAX):
        policy = {"$or": [policy, {"b": [1]}]}
    with pytest.raises(LonghallError):
        compile_policy(json.dumps(policy))


leaves = st.none() | st.booleans() | st.floats() | st.text()
words = st.sampled_from(["a", "$or", "numeric", "prefix", "anything-but"])
trees = st.recursive(leaves, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(words, inner, max_size=3))


@given(st.text() | trees.map(json.dumps))
def test_any_text_compiles_or_is_refused(text: str) -> None:
    with contextlib.suppress(LonghallError):
        compile_policy(text).matches(WANTED)


@given(st.text("ab*", max_size=6), st.text("ab", max_size=8))
def test_wildcards_match_like_a_reference(pattern: str, value: str) -> None:
    reached = {0}
    for character in pattern:
        if character == "*":
            reached = {at for start in reached for at in range(start, len(value) + 1)}
        else:
            reached = {at + 1 for at in reached if value[at : at + 1] == character}
    assert wildcard_fits(value, pattern.split("*")) is (len(value) in reached)

"""Selectors: the grammar, SQL's three truth values, the refusals."""

from __future__ import annotations

import contextlib
import fnmatch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longhall.errors import Code, LonghallError
from longhall.queues.envelope import Fields
from longhall.queues.selector import NESTING_MAX, TEXT_CHARACTERS_MAX, compile_selector, like_fits, like_pieces

WANTED = Fields(b"", b"the-key", 0)
WANTED.priority = 3
WANTED.attributes = {
    "city": ("String", b"Oslo"),
    "price": ("Number", b"12.50"),
    "header": ("String", b"42"),
    "fresh": ("String", b"true"),
    "odd name": ("String", b"it's"),
}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("city = 'Oslo'", True),
        ("city <> 'Oslo'", False),
        ("'Oslo' = city", True),
        ("price = 12.5 AND city = 'Oslo'", True),
        ("price > 12.5 OR city = 'Moss'", False),
        ("price >= 12.5 and price <= 1.25e1", True),
        ("header > 41", True),
        ("city > 5", False),
        ("NOT city = 'Moss'", True),
        ("NOT (city = 'Moss' OR price < 100)", False),
        ("city IN ('Moss', 'Oslo')", True),
        ("city NOT IN ('Moss')", True),
        ("city LIKE 'O%o'", True),
        ("city LIKE 'O_lo'", True),
        ("city NOT LIKE 'O_o'", True),
        ("city LIKE 'O!%' ESCAPE '!'", False),
        ("price BETWEEN 12 AND 13", True),
        ("price NOT BETWEEN 12 AND 13", False),
        ("city IS NOT NULL", True),
        ("missing IS NULL", True),
        ("missing = 'x'", False),
        ("NOT missing = 'x'", False),  # Unknown is not false.
        ("missing = 'x' OR city = 'Oslo'", True),
        ("NOT (missing = 'x' AND city = 'Moss')", True),
        ("fresh", True),
        ("fresh = TRUE", True),
        ("fresh = FALSE", False),
        ("TRUE", True),
        ("\"odd name\" = 'it''s'", True),
        ("$key = 'the-key' AND $priority >= 3", True),
        ("a = 1 OR b = 2 AND city = 'Oslo' OR city = 'Oslo'", True),
    ],
)
def test_each_form(text: str, expected: bool) -> None:
    assert compile_selector(text).matches(WANTED) is expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "city =",
        "= 'x'",
        "city = 'x",
        "city = 'x' AND",
        "(city = 'x'",
        "city = 'x')",
        "city IN ()",
        "city IN (5)",
        "city LIKE 5",
        "city LIKE 'x' ESCAPE 'ab'",
        "city NOT",
        "city IS 5",
        "price BETWEEN 1",
        "city ; 5",
        "city = 'x' price",
        "(" * (NESTING_MAX + 1) + "city" + ")" * (NESTING_MAX + 1),
        "city OR " * 600 + "city",
        " " * TEXT_CHARACTERS_MAX + "a",
    ],
)
def test_invalid_selectors_are_refused(text: str) -> None:
    with pytest.raises(LonghallError) as refusal:
        compile_selector(text)
    assert refusal.value.code is Code.INVALID_REQUEST


pieces = st.sampled_from(
    ["city", "'Oslo'", "5", "(", ")", "AND", "OR", "NOT", "IN", "LIKE", "BETWEEN", "IS", "NULL", "="]
)


@given(st.text() | st.lists(pieces, max_size=12).map(" ".join))
def test_any_text_compiles_or_is_refused(text: str) -> None:
    with contextlib.suppress(LonghallError):
        compile_selector(text).matches(WANTED)


@given(st.text("ab%_", max_size=6), st.text("ab", max_size=8))
def test_like_matches_like_a_reference(pattern: str, value: str) -> None:
    expected = fnmatch.fnmatchcase(value, pattern.replace("%", "*").replace("_", "?"))
    assert like_fits(value, like_pieces(pattern, "")) is expected

"""Expressions over topic names: matched as a backtracking engine does where both know the syntax, in linear time."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longhall.topics.topic_pattern import TopicPattern

ATOMS = st.sampled_from(["a", "b", ".", r"\.", "[a-c]", "[^a]", r"\w", r"\d", "(ab|c)", "(?:a|)", "(?i:A)", r"\W"])
QUANTIFIERS = st.sampled_from(["", "", "*", "+", "?", "{1,2}", "{2}", "*?"])
ANCHORS = st.sampled_from(["^", "$", r"\b"])
PARTS = st.tuples(ATOMS, QUANTIFIERS).map("".join)
EXPRESSIONS = st.lists(PARTS | PARTS | ANCHORS, min_size=1, max_size=4).map("".join)


@given(expression=EXPRESSIONS, name=st.text("abcA1.-_", max_size=7))
def test_it_matches_as_other_engines_do(expression: str, name: str) -> None:
    assert TopicPattern(expression).matches(name) == bool(re.fullmatch(expression, name))


@pytest.mark.parametrize(
    ("expression", "matched", "other"),
    [
        ("orders-[[:digit:]]+", "orders-17", "orders-x"),
        (r"\Qa.b\E*", "a.bb", "axb"),
        (r"\pL+", "abc", "a1"),
        (r"\P{Lu}+", "a1", "A"),
        (r"(?i)ORDERS", "orders", "order"),
        (r"(?i)a(?-i)b", "Ab", "AB"),
        (r"(?P<name>a)b", "ab", "a"),
        (r"\x61\x{62}", "ab", "aa"),
        (r"[\d\-.]+", "1-.", "a"),
        (r"a{b", "nothing", "a"),
        ("", "", "a"),
    ],
)
def test_the_syntax(expression: str, matched: str, other: str) -> None:
    pattern = TopicPattern(expression)
    assert pattern.matches(matched) == (expression != "a{b")  # No name has a brace.
    assert not pattern.matches(other)


@pytest.mark.parametrize(
    "expression",
    [
        "(", "a)", "[a", "a**", "a++", "(?=a)", "(?<!a)", r"(a)\1", "*", "a{1001}", "a{3,2}", "\\", r"\k", "[b-a]",
        "[[:nothing:]]", r"\p{Nothing}", "((a{100}){100}){100}", "a" * 1001, "(" * 200 + ")" * 200,
    ],
)  # fmt: skip
def test_what_is_not_valid_is_refused_with_a_reason(expression: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        TopicPattern(expression)


def test_what_makes_others_backtrack_is_matched_at_once() -> None:
    assert not TopicPattern("(a*)*(a*)*(a|aa)+b").matches("a" * 249)
    assert TopicPattern("(a*)*(a*)*(a|aa)+b").matches("a" * 248 + "b")

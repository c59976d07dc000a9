"""The one thing that a checker can say."""

from __future__ import annotations


class Violation(Exception):
    """A promise was broken; the sentence says which, to whom and where."""


def demand(holds: bool, sentence: str) -> None:
    """Raise unless it holds."""
    if not holds:
        raise Violation(sentence)

"""The exception that every checker raises, and the check that raises it."""

from __future__ import annotations


class Violation(Exception):
    """A guarantee was broken; the message says which one, for which client and where."""


def demand(holds: bool, sentence: str) -> None:
    """Raise a Violation with this message unless the condition holds."""
    if not holds:
        raise Violation(sentence)

"""A planted bug, and the replacement of a function by a faulty one: see `planted`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

# Object or dictionary, name of the attribute or key, faulty replacement.
Plant = Callable[[], list[tuple[Any, str, Any]]]


class Bug(NamedTuple):
    """A planted bug: what it does wrong, the scenario that finds it, and within how many seeds."""

    sentence: str
    scenario: str
    seeds_max: int
    plant: Plant


def signature_mismatches(bug: Bug) -> list[str]:
    """Replacements whose signature does not fit the function that they replace.

    A run with such a replacement fails at the first call and proves nothing. Built-in functions have no signature to
    compare and are skipped.
    """
    found: list[str] = []
    for where, attribute, worse in bug.plant():
        good = where[attribute] if isinstance(where, dict) else getattr(where, attribute)
        if inspect.isbuiltin(good):
            continue
        asked = inspect.signature(good).parameters.values()
        places = [one.name for one in asked if one.kind is one.POSITIONAL_OR_KEYWORD]
        words = {one.name: one for one in asked if one.kind is one.KEYWORD_ONLY}
        try:
            inspect.signature(worse).bind(*places, **words)
        except TypeError as error:
            found.append(f"{attribute}: {error}")
    return found


@contextmanager
def replaced(where: Any, attribute: str, worse: Any) -> Iterator[None]:
    """Replace the attribute or dictionary entry with the faulty one inside the `with` block."""
    if isinstance(where, dict):
        good = where[attribute]
        where[attribute] = worse
        try:
            yield
        finally:
            where[attribute] = good
        return
    good = getattr(where, attribute)
    setattr(where, attribute, worse)
    try:
        yield
    finally:
        setattr(where, attribute, good)

"""What a planted bug is, and how a part is exchanged for a worse one: see `planted`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

Plant = Callable[[], list[tuple[Any, str, Any]]]  # Where, which name, and what to put there instead.


class Bug(NamedTuple):
    """What was done wrong, and where and how soon it shows."""

    sentence: str
    scenario: str
    seeds_max: int
    plant: Plant


def signature_mismatches(bug: Bug) -> list[str]:
    """Parts that cannot be called as those they replace: a run with them ends at the first call, and that proves
    nothing. Of plain Python only: built-in ones do not say how they are called.
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
    """While it lasts, the worse one is there."""
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

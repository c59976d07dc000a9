"""What a planted bug is, and how a part is exchanged for a worse one: see `planted`."""

from __future__ import annotations

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


@contextmanager
def exchanged(where: Any, attribute: str, worse: Any) -> Iterator[None]:
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

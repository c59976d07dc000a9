"""Bugs that are put in on purpose, to see whether the simulation notices."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple


class Bug(NamedTuple):
    sentence: str
    scenario: str
    seeds_max: int
    plant: Callable[[], Iterator[None]]


PLANTED: dict[str, Bug] = {}


@contextmanager
def planted(name: str) -> Iterator[None]:
    yield

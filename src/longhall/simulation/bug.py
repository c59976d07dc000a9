"""What a planted bug is: see `planted`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

Plant = Callable[[], list[tuple[Any, str, Any]]]  # Where, which name, and what to put there instead.


class Bug(NamedTuple):
    """What was done wrong, and where and how soon it shows."""

    sentence: str
    scenario: str
    seeds_max: int
    plant: Plant

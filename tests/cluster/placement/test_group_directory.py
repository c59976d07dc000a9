"""When a cluster spreads what is created without a placement."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from longhall.cluster.placement.group_directory import GroupDirectory

NOBODY: Any = None


@pytest.mark.parametrize(
    ("default_placement", "level", "spreads"),
    [
        (None, 8, False),
        (None, 9, True),
        ("spread", 2, False),
        ("spread", 3, True),
        ("hall", 9, False),
    ],
)
def test_without_a_word_clusters_spread_from_feature_level_9_on(
    default_placement: str | None, level: int, spreads: bool
) -> None:
    hall: Any = SimpleNamespace(feature_level=level)
    directory = GroupDirectory(hall, NOBODY, NOBODY, 1, NOBODY, default_placement=default_placement)
    assert directory.may_spread is spreads

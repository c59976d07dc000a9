"""A few rounds of the kill loop over queues; `python -m soak.queues` runs many."""

from __future__ import annotations

from pathlib import Path

import pytest

from soak.queues import QueueSoak


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_kills_break_no_guarantee(tmp_path: Path) -> None:
    counts = QueueSoak(tmp_path, seed=1).run(rounds=4)
    assert counts["acknowledged"] > 0
    assert counts["settled"] > 0

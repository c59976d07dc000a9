"""SIGKILL under load, ten times: everything acknowledged is there, in order, once, and nothing is half visible."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from soak import reckoning
from soak.kill import Soak, Violation

KILLS = 10


@pytest.mark.timeout(300)
def test_ten_kills_under_load(tmp_path: Path) -> None:
    soak = Soak(tmp_path, seed=20)
    told = soak.run(KILLS)
    assert soak.kills == KILLS
    assert told.count() > 500, "the load did next to nothing, so the rounds show nothing"
    assert len(told.transactions) > 20


@pytest.mark.timeout(300)
def test_the_soak_notices_a_log_that_lost_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a node without syncs would do after a power cut: the last part of its log was never written."""
    monkeypatch.setattr(reckoning, "READ_SECONDS_MAX", 3.0)  # What is lost does not come back by waiting.
    lost_bytes: list[int] = []

    def lose_the_end(data: Path) -> None:
        # Files have their whole size from the start; spare ones have no head, and each says where in the log it begins.
        begun = [
            (content[8:16], file) for file in (data / "wal").iterdir() if (content := file.read_bytes())[:4] == b"LHWL"
        ]
        file = max(begun)[1]
        size = len(file.read_bytes().rstrip(b"\0"))
        if size > 100_000:  # The first rounds may have little more than the topics in their log, which must stay.
            os.truncate(file, size * 4 // 5)
            lost_bytes.append(size // 5)

    with pytest.raises(Violation, match=r"was acknowledged|was committed"):
        Soak(tmp_path, seed=21, meanwhile=lose_the_end).run(4)
    assert lost_bytes

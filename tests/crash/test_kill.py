"""SIGKILL under load, ten times: everything acknowledged is readable, in order, once, and nothing is half visible."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from soak.kill import Soak

ROOT = Path(__file__).parents[2]
KILLS = 10


@pytest.mark.timeout(300)
def test_ten_kills_under_load(tmp_path: Path) -> None:
    soak = Soak(tmp_path, seed=20)
    told = soak.run(KILLS)
    assert soak.kills == KILLS
    assert told.count() > 500, "the load did next to nothing, so the rounds prove nothing"
    assert len(told.transactions) > 20


@pytest.mark.timeout(300)
def test_the_soak_notices_a_log_that_lost_its_end(tmp_path: Path) -> None:
    for seed in (21, 22, 23):
        command = [sys.executable, "-m", "tests.crash.losing", str(seed), str(tmp_path / str(seed))]
        ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=90, check=False)
        if ended.returncode >= 0:
            break
        with contextlib.suppress(OSError, ValueError):  # A client may have crashed; the node is still running.
            os.kill(int((tmp_path / str(seed) / "data" / "lock").read_text()), signal.SIGKILL)
    assert ended.returncode == 1, ended.stdout + ended.stderr
    assert re.search(r"was acknowledged|was committed", ended.stdout)
    assert "lost " in ended.stdout

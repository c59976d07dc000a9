"""A slice of `./dev soak celery`: the broker of two workers is killed three times.

`./dev soak celery` goes on for twenty minutes.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from house.environment import ROOT
from soak.celery_ledger import Ledger
from soak.kill import Violation


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_no_task_is_lost_when_the_broker_is_killed(tmp_path: Path) -> None:
    words = ["celery", "--minutes", "0.8", "--every", "10", "--directory", str(tmp_path / "celery")]
    done = subprocess.run([sys.executable, "-m", "soak", *words], cwd=ROOT, capture_output=True, text=True, check=False)
    print(done.stdout, done.stderr)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout.splitlines()[-1].split()[0]) >= 1, "the broker was killed"


def ledger(path: Path, *notes: tuple[str, str, float]) -> Ledger:
    lines = [f'{{"message": "{message}", "what": "{what}", "at": {at}}}\n' for message, what, at in notes]
    path.write_text("".join(lines))
    return Ledger(path)


def test_a_task_that_never_ran_is_found(tmp_path: Path) -> None:
    kept = ledger(tmp_path / "ledger", ("a.0", "ran", 1.0), ("b.0", "received", 1.0))
    with pytest.raises(Violation, match="1 tasks were confirmed and never ran: \\['b'\\]"):
        kept.judge({"a": 0, "b": 0})


def test_a_task_that_ran_again_after_its_acknowledgement_is_found(tmp_path: Path) -> None:
    noted = [("a.0", "received", 1.0), ("a.0", "ran", 2.0), ("a.0", "acked", 2.0), ("a.0", "ran", 9.0)]
    kept = ledger(tmp_path / "ledger", *noted)
    kept.lived(0.0, 5.0)
    with pytest.raises(Violation, match="ran again after they were acknowledged"):
        kept.judge({"a": 0})


def test_a_task_whose_acknowledgement_the_kill_may_have_cost_may_run_again(tmp_path: Path) -> None:
    noted = [("a.0", "received", 1.0), ("a.0", "ran", 2.0), ("a.0", "acked", 2.0), ("a.0", "ran", 9.0)]
    kept = ledger(tmp_path / "ledger", *noted)
    kept.lived(0.0, 3.0)
    assert kept.judge({"a": 0})["ran_more_than_once"] == 1


def test_a_retry_of_a_task_that_was_delivered_twice_may_run_twice(tmp_path: Path) -> None:
    noted = [("a.0", "received", 1.0), ("a.1", "received", 1.0), ("a.1", "ran", 2.0), ("a.1", "acked", 2.0)]
    kept = ledger(tmp_path / "ledger", *noted, ("a.0", "received", 7.0), ("a.1", "ran", 9.0))
    kept.lived(0.0, 5.0)
    assert kept.judge({"a": 1})["ran_more_than_once"] == 1

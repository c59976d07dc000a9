"""A slice of `./dev simulate`: whole nodes through faults, the same run twice, bugs that are found."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from longhall.simulation.planted import PLANTED
from longhall.simulation.planted_queues import QUEUE_BUGS
from longhall.simulation.planted_replicas import REPLICA_BUGS
from longhall.simulation.runner import Job, run_job
from longhall.simulation.scenarios.plays import SCENARIOS

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.slow


def simulate(*arguments: str, hash_seed: int = 0, plain: bool = False) -> str:
    """As a person would run it, in a process of its own."""
    environment = {**os.environ, "PYTHONHASHSEED": str(hash_seed)}
    if plain:
        environment["PYTHONPATH"] = str(ROOT / "src")
    command = [sys.executable, "-m", "longhall.simulation", *arguments]
    run = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout[-4000:] + run.stderr[-4000:]
    return run.stdout


@pytest.mark.parametrize("scenario", sorted(SCENARIOS))
def test_nothing_is_violated(scenario: str) -> None:
    ran = run_job(Job(1, scenario))
    assert ran.verdict == "", f"{ran.story}\n{ran.verdict}\nrerun: {ran.job.command()}"
    assert ran.played is not None
    assert ran.played.virtual_s >= 180
    assert ran.played.acknowledged > 100
    assert ran.played.faults > 5


@pytest.mark.parametrize("scenario", ["crashes", "queues", "cluster"])
def test_the_same_seed_gives_the_same_trace(scenario: str) -> None:
    digests = {
        simulate("--seed", "2", "--scenario", scenario, hash_seed=number).split("digest='")[1].split("'")[0]
        for number in (1, 2)
    }
    assert len(digests) == 1


@pytest.mark.parametrize(
    "bug",
    [
        "acknowledge-before-sync",
        "forget-producers",
        "lease-twice-while-syncing",
        "forget-deduplication",
        "redrive-without-settling",
        "answer-before-the-sync",
        "truncate-to-the-commit-position",
        "forget-the-cut",
    ],
)
def test_planted_bugs_are_found(bug: str) -> None:
    assert "1 of 1 planted bugs found" in simulate("--planted", bug, "--processes", "1", plain=True)


def test_there_are_enough_planted_bugs_and_each_says_what_it_is() -> None:
    assert len(PLANTED) - len(QUEUE_BUGS) - len(REPLICA_BUGS) >= 15
    assert len(QUEUE_BUGS) >= 8
    assert len(REPLICA_BUGS) >= 15
    for bug in PLANTED.values():
        assert bug.scenario in SCENARIOS
        assert bug.sentence.endswith(".")
        assert 1 <= bug.seeds_max <= 40


def test_every_planted_bug_of_queues_and_clusters_is_documented() -> None:
    text = (ROOT / "docs" / "simulation.md").read_text()
    for name, bug in {**QUEUE_BUGS, **REPLICA_BUGS}.items():
        assert f"| `{name}`: {bug.sentence} | `{bug.scenario}` | {bug.seeds_max} |" in text

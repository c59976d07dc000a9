"""A slice of `./dev simulate`: whole nodes through faults, the same run twice, bugs that are found.

Every scenario runs for a fraction of its usual time; the whole of it, and every planted bug, is for `./dev simulate`.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from simulation.planted import PLANTED, TENTHS, tenth
from simulation.planted_coordinators import COORDINATOR_BUGS
from simulation.planted_disks import DISK_BUGS
from simulation.planted_features import FEATURE_BUGS
from simulation.planted_histories import HISTORY_BUGS
from simulation.planted_peers import PEER_BUGS
from simulation.planted_queues import QUEUE_BUGS
from simulation.planted_repairs import REPAIR_BUGS
from simulation.planted_replicas import REPLICA_BUGS
from simulation.planted_topics import TOPIC_BUGS
from simulation.planted_transactions import TRANSACTION_BUGS
from simulation.planted_wings import WING_BUGS
from simulation.runner import Job, run_job
from simulation.scenarios.histories import HISTORIES
from simulation.scenarios.registry import SCENARIOS

ROOT = Path(__file__).parents[2]
SHARE = 0.1
TODAY = datetime.now(UTC).toordinal()
SHARES = {"recycling": 0.15, "forks": 0.3}  # Faults, or messages, are rare here, and some should happen.
DOCUMENT = (ROOT / "docs" / "simulation.md").read_text()

slow = pytest.mark.slow
patient = pytest.mark.timeout(900)  # No machine is too slow for what depends on no machine.


def simulate(*arguments: str, hash_seed: int = 0, plain: bool = False) -> str:
    """Run `./dev simulate` as a user would, in a process of its own."""
    environment = {**os.environ, "PYTHONHASHSEED": str(hash_seed)}
    if plain:
        environment["PYTHONPATH"] = str(ROOT / "src")
    command = [sys.executable, "-m", "simulation", *arguments]
    run = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout[-4000:] + run.stderr[-4000:]
    return run.stdout


@slow
@patient
@pytest.mark.parametrize("scenario", sorted(SCENARIOS))
def test_nothing_is_violated(scenario: str) -> None:
    job_result = run_job(Job(1, scenario, share=SHARES.get(scenario, SHARE)))
    assert job_result.verdict == "", f"{job_result.story}\n{job_result.verdict}\nrerun: {job_result.job.command()}"
    assert job_result.result is not None
    assert job_result.result.virtual_s >= 180 * SHARE
    assert job_result.result.acknowledged > 20
    assert job_result.result.faults >= 1


@slow
@patient
@pytest.mark.parametrize("scenario", ["crashes", "queues", "cluster-queues"])
def test_the_same_seed_gives_the_same_trace(scenario: str) -> None:
    digests = {
        simulate("--seed", "2", "--scenario", scenario, "--share", str(SHARE), hash_seed=number)
        .split("digest='")[1]
        .split("'")[0]
        for number in (1, 2)
    }
    assert len(digests) == 1


@slow
@patient
@pytest.mark.parametrize("bug", tenth(TODAY))
def test_planted_bugs_are_found(bug: str) -> None:
    """A tenth of them, another one each day."""
    print(f"the bugs of day {TODAY % TENTHS} of {TENTHS}: {', '.join(tenth(TODAY))}")
    assert "1 of 1 planted bugs found" in simulate("--planted", bug, "--processes", "1", plain=True)


def test_ten_days_have_every_planted_bug() -> None:
    assert sorted(name for day in range(TODAY, TODAY + TENTHS) for name in tenth(day)) == sorted(PLANTED)


def test_there_are_enough_planted_bugs_and_each_says_what_it_is() -> None:
    assert len(TOPIC_BUGS) >= 15
    assert len(QUEUE_BUGS) >= 8
    assert len(REPLICA_BUGS) >= 15
    assert len(WING_BUGS) >= 4
    for bug in PLANTED.values():
        assert bug.scenario in SCENARIOS
        assert bug.sentence.endswith(".")
        assert 1 <= bug.seeds_max <= 40


def test_every_planted_function_has_the_signature_of_the_one_it_replaces() -> None:
    """Otherwise a run with it ends at the first call and proves nothing. Compiled functions have no signature to
    compare.
    """
    script = (
        "from simulation.bug import signature_mismatches; from simulation.planted import PLANTED;"
        "print({name: wrong for name, bug in PLANTED.items() if (wrong := signature_mismatches(bug))})"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, "-c", script]
    run = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert run.stdout.strip() == "{}", run.stdout + run.stderr


def test_every_planted_bug_of_queues_and_clusters_is_documented() -> None:
    for name, bug in {
        **QUEUE_BUGS,
        **FEATURE_BUGS,
        **REPLICA_BUGS,
        **HISTORY_BUGS,
        **WING_BUGS,
        **TRANSACTION_BUGS,
        **COORDINATOR_BUGS,
        **DISK_BUGS,
        **PEER_BUGS,
        **REPAIR_BUGS,
    }.items():
        assert f"| `{name}`: {bug.sentence} | `{bug.scenario}` | {bug.seeds_max} |" in DOCUMENT


def test_every_scenario_is_documented_and_every_history_has_its_bug() -> None:
    """The table of histories and the code agree, row by row."""
    rows = re.findall(
        r"^\| ([^|]+) \| `([a-z0-9-]+)` \| `([\w/.]+)` \| [^|]+ \| `([a-z-]+)` \|$", DOCUMENT, re.MULTILINE
    )
    assert [name for _, name, _, _ in rows] == list(HISTORIES)
    for _, name, where, bug in rows:
        text = (ROOT / where).read_text()
        assert f'"{name}": {name.replace("-", "_")},' in text
        assert HISTORY_BUGS[bug].scenario == name
    missing = [name for name in SCENARIOS if f"`{name}`" not in DOCUMENT]
    assert missing == []


@pytest.mark.parametrize(
    "history",
    [
        "KIP-101",
        "KIP-279",
        "KIP-966",
        "KIP-890",
        "NATS 2.12.1",
        "Redpanda 21.10",
        "Bufstream 0.1",
        "RabbitMQ",
        "ZooKeeper",
        "SQS FIFO",
        "fsync",
    ],
)
def test_no_history_is_forgotten(history: str) -> None:
    assert any(history in row for row in DOCUMENT.splitlines() if "histories.py" in row)

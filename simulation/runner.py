"""Runs seeds, several at once, and prints for each failure the command that reruns it.

Seeds run in worker processes. Some seeds run twice, in two processes with different hash seeds: their traces must be
equal. Planted bugs prove that the checks find something: see `planted`.
"""

from __future__ import annotations

import gc
import logging
import multiprocessing
import os
import sys
import time
import traceback
import warnings
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from typing import Final, NamedTuple

from simulation.bug import signature_mismatches
from simulation.planted import PLANTED, planted
from simulation.replicas.log_scenarios import REPLICA_SCENARIOS
from simulation.scenarios.clusters import CLUSTER_SCENARIOS
from simulation.scenarios.coordinators import LOST_COORDINATORS
from simulation.scenarios.disks import BAD_CLUSTER_DISKS
from simulation.scenarios.features import FEATURE_SCENARIOS
from simulation.scenarios.forks import FORK_SCENARIOS
from simulation.scenarios.histories import HISTORIES
from simulation.scenarios.machines import MACHINE_SCENARIOS
from simulation.scenarios.moves import MOVE_SCENARIOS
from simulation.scenarios.node import start_node
from simulation.scenarios.outboxes import OUTBOX_SCENARIOS
from simulation.scenarios.queues import QUEUE_SCENARIOS
from simulation.scenarios.registry import SCENARIOS
from simulation.scenarios.repairs import REPAIR_SCENARIOS
from simulation.scenarios.run_result import RunResult
from simulation.scenarios.spread_queues import SPREAD_SCENARIOS
from simulation.scenarios.upgrades import VERSION_SCENARIOS
from simulation.scenarios.wings import WING_SCENARIOS
from simulation.world import Simulation

TWICE_EVERY: Final = 20  # One seed in twenty runs twice.
# Runs leave much garbage of dead processes behind; a worker process is replaced before it takes too much memory.
SEEDS_PER_PROCESS: Final = 8
TRACE_LINES: Final = 60


class Job(NamedTuple):
    """One seed of one scenario, with at most one planted bug."""

    seed: int
    scenario: str
    bug: str = ""
    share: float = 1.0  # Fraction of the scenario's usual duration.

    def command(self) -> str:
        """The command that runs this job again."""
        bug = f" --planted {self.bug}" if self.bug else ""
        share = f" --share {self.share}" if self.share != 1.0 else ""
        return f"./dev simulate --seed {self.seed} --scenario {self.scenario}{bug}{share}"


class JobResult(NamedTuple):
    """The result of a job. `verdict` is empty if no check failed."""

    job: Job
    result: RunResult | None
    verdict: str
    story: str
    real_s: float


def scenario_of(seed: int, kind: str = "all") -> str:
    """The scenario of a seed: those of topics, of queues, of clusters or all take turns."""
    names = [name for name in SCENARIOS if kind in ("all", kind_of(name))]
    return names[seed % len(names)]


def kind_of(scenario: str) -> str:
    """The kind of a scenario: `topics`, `queues` or `cluster`."""
    clusters = (
        REPLICA_SCENARIOS,
        CLUSTER_SCENARIOS,
        HISTORIES,
        VERSION_SCENARIOS,
        WING_SCENARIOS,
        SPREAD_SCENARIOS,
        MOVE_SCENARIOS,
        OUTBOX_SCENARIOS,
        FORK_SCENARIOS,
        BAD_CLUSTER_DISKS,
        LOST_COORDINATORS,
        REPAIR_SCENARIOS,
        MACHINE_SCENARIOS,
    )
    if any(scenario in some for some in clusters):
        return "cluster"
    return "queues" if scenario in QUEUE_SCENARIOS or scenario in FEATURE_SCENARIOS else "topics"


def run_job(job: Job) -> JobResult:
    """Run one seed in this process."""
    logging.getLogger("longhall").addHandler(logging.NullHandler())
    logging.getLogger("longhall").propagate = False
    sys.unraisablehook = _ignore  # Coroutines of dead processes raise warnings when they are discarded.
    warnings.simplefilter("ignore", RuntimeWarning)
    began = time.monotonic()
    simulation = Simulation(job.seed, job.share)
    result: RunResult | None = None
    verdict = story = ""
    try:
        with planted(job.bug):
            result = simulation.run(SCENARIOS[job.scenario](simulation, start_node))
    except Exception as error:
        verdict = f"{type(error).__name__}: {error}"
        story = f"{simulation.trace.tail(TRACE_LINES)}\n{traceback.format_exc()}"
    simulation.close()
    del simulation
    gc.collect()
    return JobResult(job, result, verdict, story, time.monotonic() - began)


def _ignore(unraisable: object) -> None:
    pass


def run_jobs(jobs: Iterable[Job], processes: int) -> Iterator[JobResult]:
    """Run many jobs and yield their results in the order of the jobs."""
    listed = list(jobs)
    if processes <= 1 or len(listed) == 1:
        yield from map(run_job, listed)
        return
    context = multiprocessing.get_context("spawn")
    together = processes * SEEDS_PER_PROCESS
    for first in range(0, len(listed), together):
        with ProcessPoolExecutor(processes, mp_context=context) as pool:
            yield from pool.map(run_job, listed[first : first + together])


def simulate(
    seeds: range,
    scenario: str | None,
    processes: int,
    *,
    kind: str = "all",
    bug: str = "",
    share: float = 1.0,
    verbose: bool,
) -> int:
    """Run all seeds and print a summary. Returns an exit code."""
    jobs = [Job(seed, scenario or scenario_of(seed, kind), bug, share) for seed in seeds]
    again = jobs[::TWICE_EVERY] if len(jobs) > 1 else []
    began = time.monotonic()
    virtual_s = 0.0
    counts = [0] * 7
    failures: list[JobResult] = []
    digests: dict[Job, str] = {}
    for done, job_result in enumerate(run_jobs([*jobs, *again], processes), 1):
        if job_result.result is None:
            failures.append(job_result)
            _show_failure(job_result)
            continue
        if job_result.job in digests and digests[job_result.job] != job_result.result.digest:
            failures.append(job_result)
            print(f"{job_result.job.command()}: two runs have different traces", flush=True)
        digests[job_result.job] = job_result.result.digest
        virtual_s += job_result.result.virtual_s
        for at, number in enumerate(job_result.result.counts()):
            counts[at] += number
        if verbose or done % 20 == 0:
            _show_progress(done, len(jobs) + len(again), virtual_s, time.monotonic() - began, job_result, verbose)
    real_s = time.monotonic() - began
    print(
        f"{len(jobs)} seeds, {len(again)} of them twice: {virtual_s / 3600:.1f} simulated hours in {real_s:.0f} s;"
        f" {counts[0]} sends, {counts[1]} acknowledged, {counts[2]} starts, {counts[3]} faults;"
        f" {counts[4]} deliveries, {counts[5]} settled, {counts[6]} dead letters; {len(failures)} failures"
    )
    return 1 if failures else 0


def find_planted(names: list[str], processes: int) -> int:
    """Look for each planted bug within the number of seeds that it states. Returns an exit code."""
    missed: list[str] = []
    for name in names:
        bug = PLANTED[name]
        wrong = signature_mismatches(bug)
        if wrong:
            missed.append(name)
            print(f"MISFIT     {name}: {'; '.join(wrong)}", flush=True)
            continue
        found = None
        seeds = range(1, bug.seeds_max + 1)
        for start in range(0, len(seeds), processes):
            batch = [Job(seed, bug.scenario, name) for seed in seeds[start : start + processes]]
            found = next((job_result for job_result in run_jobs(batch, processes) if job_result.verdict), None)
            if found is not None:
                break
        if found is None:
            missed.append(name)
            print(f"NOT FOUND  {name}: {bug.seeds_max} seeds of {bug.scenario} did not notice", flush=True)
        else:
            sentence = found.verdict.splitlines()[0][:140]
            print(f"found      {name}: seed {found.job.seed} of at most {bug.seeds_max}, {sentence}", flush=True)
    print(f"{len(names) - len(missed)} of {len(names)} planted bugs found")
    if missed:
        print(f"no longer found, which is a finding and not a line to delete: {', '.join(missed)}")
    return 1 if missed else 0


def default_processes() -> int:
    return os.cpu_count() or 1


def _show_failure(job_result: JobResult) -> None:
    command = job_result.job.command()
    print(f"\nFAILED  {command}\n{job_result.story}\n{job_result.verdict}\nrerun: {command}\n", flush=True)


def _show_progress(
    done: int, total: int, virtual_s: float, real_s: float, job_result: JobResult, verbose: bool
) -> None:
    line = f"{done}/{total}: {virtual_s / 3600:.2f} simulated hours in {real_s:.0f} s"
    if verbose and job_result.result is not None:
        line += f"; {job_result.job.command()}: {job_result.real_s:.1f} s, {job_result.result}"
    print(line, flush=True)

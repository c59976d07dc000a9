"""The whole suite in parts, four at a time, each in a process of its own.

Every test runs on the installed build, in one part: one of them is all that the others do not name, so that a new
directory is never left out. The fast tests of rooms with compiled files run on the plain sources as well, for there the
two builds differ; the other rooms are the same Python files in both.

The output of a part is printed as it comes, with the part's name before each line; from its failures on it is held
until its end, so that two parts never mix there. The end lists the result of each part, the tests that failed, and what
was left out and why.

Tests with real processes share a small machine with three other parts. A few that fail there are run once more when
nothing else runs. One that fails again fails the suite; one that passes is listed as unsteady, for it shows a fault of
its own or of the product that needs a slow machine. The simulation does not depend on the machine: what fails there has
failed.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Final, NamedTuple

from house.environment import ROOT, child_environment, hot_files, say
from house.left_out import left_out_lines, read_left_out

AT_ONCE_MAX: Final = 4  # Twice the cores of a small machine: two parts of four wait for something.
AGAIN_MAX: Final = 4  # More failures than this are no accident of the machine.
FOUND_NOTHING: Final = 5  # pytest's exit code if there was no test to run.
PLAIN_SOURCES: Final = "plain-sources"
FAST: Final = "not slow and not clients"
WIDTH: Final = 80
COUNTS: Final = re.compile(r"\b\d+ (passed|failed|error|deselected|skipped).* in \d|no tests ran")

WHICH_BUILD: Final = "tests/house/test_build.py"  # Shows that a part runs the build that it should.

DETERMINISTIC: Final = "simulation"  # The part whose tests depend on no machine.

# The parts of the installed build beside that of all other tests, in the order of their start. The longest come first,
# and short ones last, so that no part runs alone for long at the end. The cluster, the clients, crashes and the soak
# mostly wait, for leases and sessions to end; the simulation, the broker and the doors never wait. A directory inside
# that of another part is not in the other part.
APART: Final = {
    "clients": "tests/clients",
    "clients of queues": "tests/clients/sqs",
    "clients of exchanges": "tests/clients/amqp",
    "simulation": "tests/simulation",
    "cluster": "tests/cluster",
    "pipeline": "tests/pipeline",
    "soak": "tests/soak",
    "broker": "tests/broker",
    "crashes": "tests/crash",
    "doors": "tests/doors",
}
BEFORE_THE_OTHERS: Final = 6  # So many of them start before the part of all other tests.


class Part(NamedTuple):
    """Some tests on one build."""

    name: str
    build: str
    arguments: tuple[str, ...]


class Outcome(NamedTuple):
    """The result of a part: pytest's exit code, its last line, the tests that failed, what it left out, and the tests
    that failed beside others and passed alone.
    """

    code: int
    said: str
    failed: list[str]
    left_out: list[tuple[str, str]]
    unsteady: Sequence[str] = ()


def plain() -> Part:
    """The part that runs on the plain sources: the fast tests of every room that has compiled files."""
    return Part("plain Python, fast tests", PLAIN_SOURCES, ("-q", "-m", FAST, WHICH_BUILD, *plain_places()))


def plain_places() -> list[str]:
    """The directories of tests whose rooms have compiled files, by the list in setup.py. A door is a room."""
    found = set()
    for path in hot_files():
        words = path.relative_to(ROOT / "src" / "longhall").parts
        place = Path("tests", *words[: 2 if words[0] == "doors" else 1])
        if (ROOT / place).is_dir():
            found.add(str(place))
    return sorted(found)


def parts(build: str) -> list[Part]:
    """The parts of the installed build, in the order of their start."""
    chosen = []
    for name, place in APART.items():
        inside = [f"--ignore={other}" for other in APART.values() if other.startswith(f"{place}/")]
        chosen.append(Part(f"{build}, {name}", build, (*inside, place)))
    rest = [f"--ignore={place}" for place in APART.values()]
    chosen.insert(BEFORE_THE_OTHERS, Part(f"{build}, all others", build, (*rest, "tests")))
    return chosen


def run_suite(prepare: Callable[[], str]) -> int:
    """Run all parts, print their results, and return the exit code of the first that failed.

    `prepare` installs the build to test and returns its name; the plain sources are tested meanwhile.
    """
    lock = threading.Lock()
    with tempfile.TemporaryDirectory() as scratch, ThreadPoolExecutor(_at_once()) as pool:

        def begin(part: Part) -> Future[Outcome]:
            return pool.submit(_run, part, Path(scratch) / f"{part.name}.json", lock)

        first = plain()
        running = [begin(first)]
        chosen = [first, *parts(pool.submit(prepare).result())]
        running += map(begin, chosen[1:])
        outcomes = [one.result() for one in running]
        if sum(len(outcome.failed) for outcome in outcomes) <= AGAIN_MAX:
            for at, part in enumerate(chosen):
                if outcomes[at].failed and not part.name.endswith(DETERMINISTIC):
                    outcomes[at] = judged_again(outcomes[at], _run(alone(part, outcomes[at].failed), None, lock))
    for line in summary(chosen, outcomes):
        print(line)
    return combined([outcome.code for outcome in outcomes])


def alone(part: Part, failed: Sequence[str]) -> Part:
    """The tests of a part that failed, as a part of their own."""
    tests = [line.split(" ", 1)[1].split(" - ")[0] for line in failed]
    return Part(f"{part.name}, once more", part.build, tuple(tests))


def judged_again(first: Outcome, second: Outcome) -> Outcome:
    """The outcome of a part whose failures were run once more, alone."""
    if second.code != 0:
        return first
    return first._replace(code=0, failed=[], unsteady=first.failed)


def _at_once() -> int:
    """The number of parts that run at once: two for each core, for about half of them wait."""
    return min(AT_ONCE_MAX, (os.cpu_count() or 1) * 2)


def combined(codes: Sequence[int]) -> int:
    """The exit code of all parts: that of the first one that failed."""
    return next((code for code in codes if code not in (0, FOUND_NOTHING)), 0)


def summary(chosen: Sequence[Part], outcomes: Sequence[Outcome]) -> list[str]:
    """The last lines of the whole run."""
    lines = [" the whole suite ".center(WIDTH, "=")]
    lines += [f"{part.name}: {outcome.said}" for part, outcome in zip(chosen, outcomes, strict=True)]
    lines += left_out_lines([found for outcome in outcomes for found in outcome.left_out], WIDTH)
    failed = [f"{part.name}: {test}" for part, outcome in zip(chosen, outcomes, strict=True) for test in outcome.failed]
    unsteady = [
        f"{part.name}: {test}" for part, outcome in zip(chosen, outcomes, strict=True) for test in outcome.unsteady
    ]
    if unsteady:
        lines += [" unsteady: failed beside others, passed alone ".center(WIDTH, "="), *unsteady]
    if failed:
        lines += [" failed ".center(WIDTH, "="), *failed]
    return lines


def _run(part: Part, left_out: Path | None, lock: threading.Lock) -> Outcome:
    say(f"{part.name}: begins")
    # The cache is for the search of a single failure; two processes would write it at once.
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--color=no", *part.arguments]
    environment = child_environment(
        LONGHALL_TEST_BUILD=part.build, LONGHALL_LEFT_OUT=str(left_out or ""), LONGHALL_TEST_EXAMPLES="same"
    )
    kept: list[str] = []
    with subprocess.Popen(
        command,
        cwd=ROOT,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as running:
        assert running.stdout is not None
        for line in running.stdout:
            line = line.rstrip("\n")
            if kept or (line.startswith("=====") and "test session starts" not in line):
                kept.append(line)
            else:
                with lock:
                    print(f"{part.name} | {line}", flush=True)
    with lock:
        print(f" {part.name} ".center(WIDTH, "="), *kept, sep="\n", flush=True)
    said = last_words(kept) or f"ended with {running.returncode} and said nothing"
    left = read_left_out(left_out) if left_out is not None else []
    return Outcome(running.returncode, said, failures(kept), left)


def failures(lines: Sequence[str]) -> list[str]:
    """The tests that pytest's summary names. Captured logs before it have lines that begin alike."""
    begins = next((at for at, line in enumerate(lines) if "short test summary info" in line), len(lines))
    return [line for line in lines[begins:] if line.startswith(("FAILED ", "ERROR "))]


def last_words(lines: Sequence[str]) -> str:
    """The line in which pytest counts; a client's thread may write behind it."""
    counts = [line for line in lines if COUNTS.search(line)]
    return (counts or lines or [""])[-1].strip("= ")


def run_chosen(build: str, arguments: Sequence[str]) -> int:
    """Run the tests that the caller chose by arguments for pytest, on the plain sources and then on the installed
    build.
    """
    with tempfile.TemporaryDirectory() as scratch:
        left_out = str(Path(scratch) / "left-out.json")
        codes = []
        for where, choice in ((PLAIN_SOURCES, ["-q", "-m", FAST]), (build, [])):
            say(f"{where}: the tests that were chosen")
            environment = child_environment(LONGHALL_TEST_BUILD=where, LONGHALL_LEFT_OUT=left_out)
            command = [sys.executable, "-m", "pytest", *choice, *arguments]
            codes.append(subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode)
    if combined(codes[:1]):
        say("the tests failed as plain Python, see further up")
    return combined(codes)

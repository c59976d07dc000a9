"""Two builds of Longhall in alternation, on one machine: is anything slower than it was?

    python -m bench builds --before DIRECTORY [--rounds N] [--benches kafka,sqs,cluster]

DIRECTORY is a checkout of the other build, set up by its own `./dev setup`. Each round runs every bench once with one
build and once with the other, in turns the one and the other first, each through the bench of its own checkout; what is
said is the median of each build and the median of the ratios within a round: of messages a second, and of messages for
each second of the brokers' processor time, which other tenants of the machine disturb less. Lines at half of a build's
own rate are left out: two builds would not do the same work.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

ROOT: Final = Path(__file__).parents[1]
BENCHES: Final = {"kafka": (), "sqs": (), "cluster": ("--parts", "rounds")}
PACED: Final = "half"
SLOWER: Final = 0.97


class Line(NamedTuple):
    """One line of one bench: by round, how fast the build before was and how fast this one is."""

    name: str
    before: list[float]
    now: list[float]

    def ratio(self) -> float:
        """Above 1 where this build is faster."""
        return statistics.median(now / before for before, now in zip(self.before, self.now, strict=True))


def run(before: Path, benches: Sequence[str], rounds: int, seconds: float) -> list[Line]:
    """All rounds of all benches."""
    lines: dict[str, Line] = {}
    for number in range(rounds):
        order = [before, ROOT] if number % 2 == 0 else [ROOT, before]
        for bench in benches:
            found = {root: _measured(root, bench, seconds) for root in order}
            for name in found[ROOT].keys() & found[before].keys():
                line = lines.setdefault(f"{bench} {name}", Line(f"{bench} {name}", [], []))
                line.before.append(found[before][name])
                line.now.append(found[ROOT][name])
            _show(f"round {number + 1} of {rounds}, {bench}", list(lines.values()))
    return list(lines.values())


def _measured(root: Path, bench: str, seconds: float) -> dict[str, float]:
    """By line, messages a second and messages for each second of processor time."""
    results = root / "bench" / "results"
    known = set(results.glob(f"{bench}-*.json"))
    command = [str(root / ".venv/bin/python"), "-m", "bench", bench, "--only", "longhall", "--rounds", "1"]
    command += ["--seconds", str(seconds), "--no-publish", *BENCHES[bench]]
    subprocess.run(command, cwd=root, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    (kept,) = set(results.glob(f"{bench}-*.json")) - known
    taken: dict[str, Any] = json.loads(kept.read_text())["rounds"][0]
    kept.unlink()
    found: dict[str, float] = {}
    for name, by_broker in taken.items():
        figures = by_broker.get("longhall", {})
        if PACED not in name and "messages" in figures:
            found[name] = figures["messages_per_second"]
            found[f"{name}, by processor time"] = figures["messages"] / max(figures["broker_cpu_seconds"], 0.01)
    return found


def _show(title: str, lines: Sequence[Line]) -> None:
    print(f"\n{title}")
    for line in sorted(lines):
        slower = "  slower" if line.ratio() < SLOWER else ""
        before, now = statistics.median(line.before), statistics.median(line.now)
        print(f"  {line.name:45} {before:14,.1f} {now:14,.1f} {line.ratio():6.3f}{slower}", flush=True)


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="bench builds", description=__doc__.split("\n")[0])
    parser.add_argument("--before", type=Path, required=True, help="a checkout of the other build, set up")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=2.5, help="length of one measurement")
    parser.add_argument("--benches", default=",".join(BENCHES), help="separated by commas (default: %(default)s)")
    given = parser.parse_args(arguments)
    unknown = set(given.benches.split(",")) - set(BENCHES)
    if unknown or not (given.before / ".venv/bin/python").exists():
        sys.exit(f"not a bench: {', '.join(sorted(unknown))}" if unknown else f"{given.before} is not set up")
    lines = run(given.before.resolve(), given.benches.split(","), given.rounds, given.seconds)
    _show("all rounds", lines)

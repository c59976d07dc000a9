"""`./dev simulate`: whole nodes in virtual time, by seed."""

from __future__ import annotations

import argparse
import os
import sys
from typing import Final

from longhall.log import wal
from simulation.planted import PLANTED
from simulation.runner import default_processes, find_planted, kind_of, simulate
from simulation.scenarios.registry import SCENARIOS

SEEDS: Final = 220  # A little over three simulated minutes each, more than ten hours in all.
_PLAIN: Final = "LONGHALL_SIMULATE_PLAIN"


def main() -> int:
    parser = argparse.ArgumentParser(prog="./dev simulate", description=__doc__)
    parser.add_argument(
        "kind",
        nargs="?",
        default="all",
        choices=["all", "topics", "queues", "cluster"],
        help="which scenarios take turns",
    )
    parser.add_argument("--seed", type=int, help="run this one, with all it has to say")
    parser.add_argument("--seeds", type=int, default=SEEDS, help=f"how many to run (default {SEEDS})")
    parser.add_argument("--first", type=int, default=1, help="the first of them (default 1)")
    parser.add_argument("--scenario", choices=sorted(SCENARIOS), help="only this one; otherwise they take turns")
    parser.add_argument("--processes", type=int, default=default_processes(), help="how many run at once")
    parser.add_argument(
        "--planted", nargs="?", const="all", choices=["all", *sorted(PLANTED)], help="look for planted bugs instead"
    )
    parser.add_argument("--share", type=float, default=1.0, help="of the time that a run usually takes (default 1)")
    parser.add_argument("--verbose", action="store_true", help="a line for every seed")
    options = parser.parse_args()
    if options.planted and not str(wal.__file__).endswith(".py"):
        return _start_plain()
    if options.planted and options.seed is None:
        return find_planted(_chosen(options.planted, options.kind), options.processes)
    if options.seed is not None:
        seeds = range(options.seed, options.seed + 1)
        return simulate(
            seeds,
            options.scenario,
            1,
            kind=options.kind,
            bug=options.planted or "",
            share=options.share,
            verbose=True,
        )
    seeds = range(options.first, options.first + options.seeds)
    return simulate(
        seeds,
        options.scenario,
        options.processes,
        kind=options.kind,
        share=options.share,
        verbose=options.verbose,
    )


def _chosen(name: str, kind: str) -> list[str]:
    """The chosen planted bugs: one, or all of a kind."""
    if name != "all":
        return [name]
    return sorted(name for name, bug in PLANTED.items() if kind in ("all", kind_of(bug.scenario)))


def _start_plain() -> int:
    """Restart with the plain Python sources: compiled functions cannot be replaced by planted bugs."""
    if os.environ.get(_PLAIN) or not os.path.isdir("src/longhall"):
        print("planted bugs need the sources of Longhall: run this as ./dev simulate in a checkout", file=sys.stderr)
        return 2
    environment = {**os.environ, "PYTHONPATH": os.path.abspath("src"), _PLAIN: "1"}
    os.execve(sys.executable, [sys.executable, "-m", "simulation", *sys.argv[1:]], environment)


if __name__ == "__main__":
    sys.exit(main())

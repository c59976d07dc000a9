"""Checks the model: `python -m model` explores every scenario, with all rules and without those that it reveals.

With --nodes the faults are those of --faults. States are visited by breadth-first search (--states, --depth) or, beyond
what can be searched, by random walks (--walks, --seed). The exit code is 1 if a scenario does not end as expected.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from model.bounds import INVARIANTS, KINDS, RULES
from model.checker import Outcome, explore, render
from model.scenarios import SCENARIOS, Scenario, wide
from model.walks import walk

STATES_MAX = 1_000_000
STEPS_MAX = 120


def main(arguments: Sequence[str]) -> int:
    """Run what the command line requests."""
    asked = _parser().parse_args(arguments)
    if asked.list:
        _list()
        return 0
    without = [rule for rule in asked.without.split(",") if rule]
    unknown = [rule for rule in without if rule not in RULES]
    unknown += [name for name in asked.scenario if name not in SCENARIOS]
    if unknown:
        print(f"model: there is no {unknown[0]}; --list shows the valid names", file=sys.stderr)
        return 2
    if asked.nodes:
        counts = dict(one.split("=") for one in asked.faults.split(",") if one)
        scenario = wide(asked.nodes, **{kind: int(count) for kind, count in counts.items()})
        return _one("wide", scenario, without, asked)
    failures = 0
    for name in asked.scenario or SCENARIOS:
        failures += _one(name, SCENARIOS[name], without, asked)
        if not without:
            failures += sum(_reveal(name, SCENARIOS[name], rules) for rules in SCENARIOS[name].reveals)
    return 1 if failures else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="model", description="Check the model of the replication protocol.")
    parser.add_argument("scenario", nargs="*", help="the scenarios to run; all of them if none is named")
    parser.add_argument("--list", action="store_true", help="list scenarios, rules, invariants and kinds of steps")
    parser.add_argument("--without", default="", help="rules that are switched off, joined by commas")
    parser.add_argument("--nodes", type=int, default=0, choices=(2, 3, 4), help="a cluster of this size, with --faults")
    parser.add_argument("--faults", default="write=2,crash=2,remove=1,drop=1,lose=1", help="kind=count,...")
    parser.add_argument("--depth", type=int, default=1000, help="steps from the start at most")
    parser.add_argument("--states", type=int, default=STATES_MAX, help="states to visit at most")
    parser.add_argument("--walks", type=int, default=0, help="take this many random walks instead of searching")
    parser.add_argument("--seed", type=int, default=0, help="of the first walk")
    parser.add_argument("--every-state", action="store_true", help="show every state of a counterexample")
    return parser


def _list() -> None:
    for title, table in (("rules", RULES), ("invariants", INVARIANTS)):
        print(f"{title}:")
        for name, about in table.items():
            print(f"  {name:4} {about}")
    print(f"kinds of steps: {', '.join(KINDS)}")
    print("scenarios:")
    for name, scenario in SCENARIOS.items():
        print(f"  {name:18} {scenario.about}")


def _one(name: str, scenario: Scenario, without: list[str], asked: argparse.Namespace) -> int:
    """Run one scenario, by search or by walks; returns 1 if an invariant is broken."""
    bounds = scenario.bounds(without)
    outcome = Outcome(0, 0, 0.0, True, [], "")
    if asked.walks:
        seed = asked.seed
        while seed < asked.seed + asked.walks and not outcome.broken:
            outcome = walk(scenario.start, bounds._replace(forgets=seed % 2 == 1), seed=seed, steps_max=STEPS_MAX)
            seed += 1
        print(f"{name}: {seed - asked.seed} walks from seed {asked.seed}, {outcome.broken or 'nothing broken'}")
    else:
        outcome = explore(scenario.start, bounds, states_max=asked.states, depth_max=asked.depth)
        print(f"{name}: {summary(outcome)}", flush=True)
    if outcome.broken:
        print("\n".join(render(outcome, every_state=asked.every_state)))
    return int(bool(outcome.broken))


def _reveal(name: str, scenario: Scenario, rules: str) -> int:
    """Check that the scenario breaks its invariant without these rules; returns 1 if it does not."""
    invariant = scenario.reveals[rules]
    outcome = explore(scenario.start, scenario.bounds(rules.split(","), [invariant]), states_max=STATES_MAX)
    print(f"{name} without {rules}: {summary(outcome)}", flush=True)
    return int(not outcome.broken)


def summary(outcome: Outcome) -> str:
    """What a search found, in one line."""
    extent = "all states" if outcome.complete else "states"
    found = outcome.broken or "nothing broken"
    return f"{outcome.states:,} {extent}, {outcome.depth} steps deep, {outcome.seconds:.1f} s: {found}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""The model of replication: the rules hold what they promise, and the absence of each is seen."""

from __future__ import annotations

import pytest

from model.__main__ import main
from model.bounds import RULES
from model.checker import explore, render, steps
from model.scenarios import SAME_LIFE, SCENARIOS, cluster, wide
from model.walks import walk

# Those that take seconds; `./dev model` runs the others too.
SMALL = ("better-copy", "older-copy", "power-cut", "rolled-back")
LARGER = ("growth", "same-epoch", "incomplete-leader")
REVEALED = [(name, rules) for name, scenario in SCENARIOS.items() for rules in scenario.reveals]
QUICK = [(name, rules) for name, rules in REVEALED if name not in ("growth", "backup")]
SLOW = [(name, rules) for name, rules in REVEALED if name in ("growth", "backup")]


def finds(name: str, rules: str) -> str:
    scenario = SCENARIOS[name]
    outcome = explore(scenario.start, scenario.bounds(rules.split(","), [scenario.reveals[rules]]))
    return outcome.broken.partition(":")[0]


@pytest.mark.parametrize(("name", "rules"), QUICK)
def test_the_absence_of_a_rule_is_seen(name: str, rules: str) -> None:
    assert finds(name, rules) == SCENARIOS[name].reveals[rules]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "rules"), SLOW)
def test_the_absence_of_other_rules_is_seen(name: str, rules: str) -> None:
    assert finds(name, rules) == SCENARIOS[name].reveals[rules]


@pytest.mark.parametrize("name", SMALL)
def test_all_states_of_small_scenarios_are_fine(name: str) -> None:
    outcome = explore(SCENARIOS[name].start, SCENARIOS[name].bounds())
    assert (outcome.complete, outcome.broken) == (True, "")


@pytest.mark.slow
@pytest.mark.parametrize("name", LARGER)
def test_all_states_of_larger_scenarios_are_fine(name: str) -> None:
    outcome = explore(SCENARIOS[name].start, SCENARIOS[name].bounds())
    assert (outcome.complete, outcome.broken) == (True, "")


def test_every_rule_is_revealed_by_a_scenario() -> None:
    revealed = {rule for _, rules in REVEALED for rule in rules.split(",")}
    # R3 is the second line behind R11: a replica has seen the record of every epoch that its log has.
    assert set(RULES) - revealed == {"R3"}


def test_a_copy_of_the_same_life_is_not_recognised_before_progress_is_noted() -> None:
    """What docs/replication.md says of it is true, and stays so until somebody finds a rule."""
    assert explore(SAME_LIFE.start, SAME_LIFE.bounds()).broken.startswith("I1")


def test_four_nodes_are_walked() -> None:
    scenario = wide(4, write=2, crash=2, remove=1, drop=2, move=2, lose=1)
    for seed in range(8):
        assert walk(scenario.start, scenario.bounds(), seed=seed, steps_max=80).broken == ""


def test_a_walk_repeats() -> None:
    scenario = wide(3, write=2, crash=2, remove=1, lose=1)
    bounds = scenario.bounds(["R2", "R3", "R11", "R12"])
    seed = next(seed for seed in range(200) if walk(scenario.start, bounds, seed=seed, steps_max=80).broken)
    first, second = (walk(scenario.start, bounds, seed=seed, steps_max=80) for _ in range(2))
    assert [label for label, _ in first.trace] == [label for label, _ in second.trace]


def test_a_counterexample_reads_as_steps() -> None:
    scenario = SCENARIOS["deposed-leader"]
    lines = render(explore(scenario.start, scenario.bounds(["R13"], ["I5"])))
    assert lines[0].strip() == "0 start"
    assert any("the coordinator loses its data" in line for line in lines)
    assert lines[-1].strip().startswith("broken: I5")


def test_bounds_are_kept() -> None:
    start = cluster(2, 0b11)
    calm = wide(2).bounds()
    labels = [label for label, _ in steps(start, calm)]
    assert labels == []
    assert explore(start, wide(2, write=1).bounds()).complete


def test_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["power-cut"]) == 0
    assert "power-cut without R9" in capsys.readouterr().out
    assert main(["power-cut", "--without", "R9"]) == 1
    assert "broken: I5" in capsys.readouterr().out
    assert main(["--list"]) == 0
    assert "R14" in capsys.readouterr().out
    assert main(["power-cut", "--without", "R99"]) == 2
    assert main(["--nodes", "3", "--faults", "write=1,crash=1", "--walks", "2"]) == 0

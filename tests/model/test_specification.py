"""docs/replication.md says what the model and the code have."""

from __future__ import annotations

import re

import pytest

from model.bounds import INVARIANTS, RULES
from model.scenarios import SCENARIOS
from tests.house.repository import ROOT, python_files

TEXT = (ROOT / "docs" / "replication.md").read_text()
NAMED = sorted(set(re.findall(r"`([A-Z]\w+)\.(\w+)`", TEXT)))


def test_every_rule_of_the_model_is_specified() -> None:
    assert [rule for rule in RULES if f"**{rule}, " not in TEXT] == []


def test_every_invariant_of_the_model_is_specified() -> None:
    assert [invariant for invariant in INVARIANTS if f"**{invariant}.**" not in TEXT] == []


def test_the_table_of_scenarios_is_that_of_the_model() -> None:
    listed: dict[str, str] = {}
    for names, rules in re.findall(r"^\| ((?:`[\w-]+`(?:, )?)+) \| (.+) \|$", TEXT, re.MULTILINE):
        for name in re.findall(r"`([\w-]+)`", names):
            listed[name] = rules
    listed = {name: rules for name, rules in listed.items() if rules == "-" or re.match(r"R\d", rules)}
    assert listed == {name: _spoken(list(scenario.reveals)) for name, scenario in SCENARIOS.items()}


def _spoken(reveals: list[str]) -> str:
    """Rules as the page has them: `R1, R2`, or `R1; R2 with R3` where two have to be absent together."""
    separator = "; " if any("," in rules for rules in reveals) else ", "
    return separator.join(rules.replace(",", " with ") for rules in reveals) or "-"


@pytest.mark.parametrize(("owner", "name"), NAMED)
def test_named_methods_exist(owner: str, name: str) -> None:
    found = [
        path
        for path in python_files("src")
        if re.search(rf"^class {owner}\b", text := path.read_text(), re.MULTILINE)
        and re.search(rf"\bdef {name}\b|\bself\.{name}\b|^    {name}:", text, re.MULTILINE)
    ]
    assert found, f"docs/replication.md names {owner}.{name}"


def test_methods_are_named() -> None:
    assert len(NAMED) > 15

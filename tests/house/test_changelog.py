"""CHANGELOG in Keep-a-Changelog form, decisions in theirs, and the pages that must be there."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from tests.house.repository import ROOT, name_of

KINDS = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
PAGES = [
    "README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "LICENSE",
    "docs/ARCHITECTURE.md",
    "docs/limits.md",
    "docs/decisions/template.md",
]
DECISIONS = sorted((ROOT / "docs" / "decisions").glob("[0-9]*.md"))


@pytest.mark.parametrize("page", PAGES)
def test_the_page_exists(page: str) -> None:
    assert (ROOT / page).read_text().strip()


def test_the_changelog_is_in_form() -> None:
    text = (ROOT / "CHANGELOG.md").read_text()
    assert text.startswith("# Changelog\n")
    versions = re.findall(r"^## (.+)$", text, re.MULTILINE)
    assert versions[0] == "[Unreleased]"
    assert [v for v in versions[1:] if not re.fullmatch(r"\[\d+\.\d+\.\d+\] - \d{4}-\d\d-\d\d", v)] == []
    assert set(re.findall(r"^### (.+)$", text, re.MULTILINE)) <= KINDS


def test_a_released_version_is_the_version_of_the_package() -> None:
    released = re.findall(r"^## \[(\d+\.\d+\.\d+)\]", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert not released or released[0] == version or version > released[0]


@pytest.mark.parametrize("decision", DECISIONS, ids=name_of)
def test_a_decision_has_its_number_and_its_reasons(decision: Path) -> None:
    text = decision.read_text()
    assert re.match(rf"# 0*{int(decision.name[:4])}\. \S", text), "the title begins with the number"
    assert {"Context", "Why"}.intersection(re.findall(r"^## (.+)$", text, re.MULTILINE)), "the reasons are missing"


def test_decisions_have_numbers_of_their_own() -> None:
    numbers = [decision.name[:4] for decision in DECISIONS]
    assert len(numbers) == len(set(numbers))

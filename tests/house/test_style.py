"""The habits of CONTRIBUTING that a machine can check."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.house.repository import ROOT, name_of, python_files, repository_files

LINES_MAX = 600
NAMELESS = {"utils", "util", "common", "core", "manager", "helper", "helpers", "misc"}
UNFINISHED = re.compile(r"\b(?:TO" r"DO|FIX" r"ME|XX" r"X|HA" r"CK)\b")
# Paths that exist on one machine only, and where packages come from: neither is the repository's business.
FOREIGN = re.compile(r"(?<![\w.$}{])/(?:root|home|work|Users)/\w|--(?:extra-)?index-url|--find-links")
QUIET_SKIP = re.compile(r"mark\.skip\b|unittest\.skip\b")
LOCKS = {ROOT / "requirements" / "dev.txt", ROOT / "requirements" / "uv.txt"}
HERE = Path(__file__).resolve()


def text_files() -> list[Path]:
    known = {"", ".py", ".md", ".toml", ".txt", ".in", ".yaml", ".yml", ".json", ".sh", ".java", ".js", ".c", ".cfg"}
    return [path for path in repository_files() if path.suffix in known and path != HERE]


def matches(pattern: re.Pattern[str], paths: list[Path]) -> list[str]:
    """Where a pattern occurs, as `file:line: text`."""
    return [
        f"{name_of(path)}:{number}: {line.strip()[:100]}"
        for path in paths
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1)
        if pattern.search(line)
    ]


def test_every_file_has_a_name_that_says_what_is_in_it() -> None:
    nameless = [name_of(path) for path in python_files() if NAMELESS.intersection([path.stem, path.parent.name])]
    assert nameless == []


def test_nothing_is_marked_as_unfinished() -> None:
    assert matches(UNFINISHED, [path for path in text_files() if path not in LOCKS]) == []


def test_the_repository_knows_no_machine_and_no_registry() -> None:
    assert matches(FOREIGN, text_files()) == []


def test_no_test_is_skipped_without_a_reason_of_the_machine() -> None:
    assert matches(QUIET_SKIP, [path for path in python_files("tests") if path != HERE]) == []


def test_files_are_short_enough_to_read() -> None:
    long = {
        name_of(path): lines for path in python_files() if (lines := len(path.read_bytes().splitlines())) > LINES_MAX
    }
    assert long == {}


def test_every_module_says_what_it_is_for() -> None:
    silent = [name_of(path) for path in python_files() if ast.get_docstring(ast.parse(path.read_bytes())) is None]
    assert silent == []


def test_every_source_delays_its_annotations() -> None:
    eager = []
    for path in python_files("src", "house", "bench", "soak", "model"):
        tree = ast.parse(path.read_bytes())
        annotated = any(
            isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.AnnAssign) for node in ast.walk(tree)
        )
        delayed = any(isinstance(node, ast.ImportFrom) and node.module == "__future__" for node in tree.body)
        if annotated and not delayed:
            eager.append(name_of(path))
    assert eager == []


@pytest.mark.parametrize("word", ["test_paths", "test_style"])
def test_the_list_of_files_is_not_empty(word: str) -> None:
    assert any(path.stem == word for path in python_files("tests"))

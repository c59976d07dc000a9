"""Every setting of queues and topics has an effect that a test shows, and docs/settings.md lists all of them."""

from __future__ import annotations

import ast
import functools
import re

import pytest

from house.settings_table import PAGE, Row, declared, render, rows, unknown_rows
from tests.house.repository import ROOT

ROWS = list(rows())


@functools.cache
def parts_of(file: str) -> dict[str, str]:
    """The functions of a file, with their decorators, and its constants, by name."""
    path = ROOT / file
    if not path.is_file():
        return {}
    text = path.read_text()
    lines = text.splitlines()
    found = {"": text}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
            found[node.name] = "\n".join(lines[first - 1 : node.end_lineno])
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.col_offset == 0:
            found[node.targets[0].id] = "\n".join(lines[node.lineno - 1 : node.end_lineno])
    return found


def is_shown(row: Row, test: str) -> bool:
    """True if the test exists and mentions the setting by one of its names, itself or by what it uses of its file."""
    file, _, name = test.partition("::")
    parts = parts_of(file)
    if name not in parts or (name and not name.startswith("test_")):
        return False
    used = [source for other, source in parts.items() if other and re.search(rf"\b{other}\b", parts[name])]
    return any(
        re.search(rf"(?<![\w.-]){re.escape(word)}(?!\w)", source)
        for word in row.words
        for source in used or [parts[name]]
    )


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.kind}-{row.name}")
def test_every_setting_is_shown_by_a_test(row: Row) -> None:
    assert row.tests, f"{row.name} has no row with tests in house/settings.toml"
    assert [test for test in row.tests if not is_shown(row, test)] == [], "no such test, or it does not mention it"
    assert row.effect


def test_there_is_no_row_for_what_is_no_setting() -> None:
    assert unknown_rows(declared()) == []


def test_the_page_is_current() -> None:
    assert PAGE.read_text() == render(), "run ./dev settings"

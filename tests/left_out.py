"""Nothing is skipped quietly: a test that this machine cannot run is left out by name, with the reason, at the end.

Every skip counts, however it came about. `./dev test` runs the suite twice; through the file that `LONGHALL_LEFT_OUT`
names, what the first run left out is in the closing summary of the second as well.
"""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import NoReturn

import pytest


def leave_out(reason: str) -> NoReturn:
    """End this test, or while a module is imported all of its tests, because something foreign is missing here."""
    pytest.skip(reason, allow_module_level=True)


def _from_reports(reports: Iterable[pytest.TestReport | pytest.CollectReport]) -> list[tuple[str, str]]:
    found = []
    for report in reports:
        longrepr = report.longrepr
        reason = longrepr[2] if isinstance(longrepr, tuple) else str(longrepr)
        found.append((reason.removeprefix("Skipped: "), report.nodeid.split("[")[0]))
    return found


def _with_earlier_runs(found: list[tuple[str, str]]) -> list[tuple[str, str]]:
    name = os.environ.get("LONGHALL_LEFT_OUT")
    if not name:
        return found
    file = Path(name)
    earlier = [(reason, test) for reason, test in json.loads(file.read_text())] if file.exists() else []
    together = list(dict.fromkeys([*earlier, *found]))
    file.write_text(json.dumps(together))
    return together


def report_left_out(terminal: pytest.TerminalReporter) -> None:
    """Print the section, or the good news that nothing was left out."""
    tests_by_reason: dict[str, list[str]] = defaultdict(list)
    for reason, test in _with_earlier_runs(_from_reports(terminal.stats.get("skipped", []))):
        if test not in tests_by_reason[reason]:
            tests_by_reason[reason].append(test)
    if not tests_by_reason:
        terminal.section("Left out: nothing")
        return
    terminal.section("Left out")
    for reason, tests in sorted(tests_by_reason.items()):
        terminal.write_line(f"{reason}:")
        for test in tests:
            terminal.write_line(f"    {test}")

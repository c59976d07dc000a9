"""Nothing is skipped quietly: a test that this machine cannot run is left out by name, with the reason, at the end.

Every skip counts, however it came about. Through the file that `LONGHALL_LEFT_OUT` names, what earlier runs left out is
in the closing summary of the next as well, and `./dev test` gathers what its parts left out.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import NoReturn

import pytest

from house.left_out import left_out_lines, read_left_out


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
    together = list(dict.fromkeys([*read_left_out(file), *found]))
    file.write_text(json.dumps(together))
    return together


def report_left_out(terminal: pytest.TerminalReporter) -> None:
    """Print the section, or the good news that nothing was left out."""
    found = _with_earlier_runs(_from_reports(terminal.stats.get("skipped", [])))
    for line in left_out_lines(found, terminal._tw.fullwidth):
        terminal.write_line(line)

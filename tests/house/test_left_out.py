"""Whatever a run leaves out is named at its end, and at the end of the run after it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.house.repository import ROOT

CONFTEST = """
from tests.left_out import report_left_out

def pytest_terminal_summary(terminalreporter):
    report_left_out(terminalreporter)
"""
ONE_TEST = """
from tests.left_out import leave_out

def test_birds():
    leave_out("no ducks on this machine")
"""
WHOLE_MODULE = """
from tests.left_out import leave_out

leave_out("no geese on this machine")

def test_more_birds():
    pass
"""


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_one.py").write_text(ONE_TEST)
    (tmp_path / "test_module.py").write_text(WHOLE_MODULE)
    (tmp_path / "test_good.py").write_text("def test_good():\n    pass\n")
    return tmp_path


def closing_lines(suite: Path, *arguments: str) -> list[str]:
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "LONGHALL_LEFT_OUT": str(suite / "left-out.json"),
    }
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", os.devnull, "--rootdir", "."]
    command += arguments
    done = subprocess.run(command, cwd=suite, env=environment, stdout=subprocess.PIPE, text=True, check=False)
    return done.stdout.splitlines()


def test_tests_and_modules_are_named_with_their_reasons(suite: Path) -> None:
    lines = closing_lines(suite, ".")
    section = lines[next(number for number, line in enumerate(lines) if " Left out " in line) :]
    assert section[1:5] == [
        "no ducks on this machine:",
        "    test_one.py::test_birds",
        "no geese on this machine:",
        "    test_module.py",
    ]
    assert "1 passed, 2 skipped" in lines[-1]


def test_a_second_run_names_what_the_first_left_out(suite: Path) -> None:
    closing_lines(suite, "test_one.py")
    lines = closing_lines(suite, "test_good.py")
    assert "no ducks on this machine:" in lines
    assert "1 passed" in lines[-1]


def test_a_run_that_leaves_out_nothing_says_so(suite: Path) -> None:
    assert any("Left out: nothing" in line for line in closing_lines(suite, "test_good.py"))

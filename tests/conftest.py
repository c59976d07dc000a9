"""Which Longhall is tested, and what the closing summary says.

Plain pytest tests the sources as they are on disk. `LONGHALL_TEST_BUILD=compiled` tests what `./dev setup` installed,
and refuses to start if that is older than the sources. Either way the programs that tests start run the same build.
"""

from __future__ import annotations

import gc
import os
import sys

import pytest
from hypothesis import HealthCheck, settings

from house.environment import ROOT, STATE, installed_is_current
from tests.examples import examples
from tests.left_out import report_left_out

SOURCE = str(ROOT / "src")
BUILD = os.environ.get("LONGHALL_TEST_BUILD", "plain-sources")

# One slow moment of a busy machine is no bug; found examples are printed as code that reruns them. Whoever works here
# tries new examples with every run; `./dev test` tries the same ones each time: it judges a change and not luck.
settings.register_profile(
    "longhall",
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
    max_examples=examples(),
    derandomize=os.environ.get("LONGHALL_TEST_EXAMPLES") == "same",
)
settings.load_profile("longhall")


def _use_sources() -> None:
    sys.path.insert(0, SOURCE)
    os.environ["PYTHONPATH"] = SOURCE


def _use_installed() -> None:
    sys.path[:] = [entry for entry in sys.path if entry != SOURCE]
    os.environ.pop("PYTHONPATH", None)
    if not installed_is_current():
        raise pytest.UsageError(f"what is installed is older than the sources ({STATE}); run ./dev setup")


if BUILD == "plain-sources":
    _use_sources()
else:
    _use_installed()


def pytest_report_header() -> str:
    return f"longhall: {'plain Python from src' if BUILD == 'plain-sources' else f'the installed build ({BUILD})'}"


def pytest_collection_finish() -> None:
    """Leave what was imported and collected to no later garbage collection: it is large, and stays to the end."""
    gc.collect()
    gc.freeze()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    report_left_out(terminalreporter)

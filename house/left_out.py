"""The list of tests that a machine cannot run, by reason, at the end of one run and of several together."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

NOTHING = "Left out: nothing"


def read_left_out(file: Path) -> list[tuple[str, str]]:
    """The reasons and tests that a run recorded; empty if it recorded none."""
    return [(reason, test) for reason, test in json.loads(file.read_text())] if file.exists() else []


def left_out_lines(found: Iterable[tuple[str, str]], width: int) -> list[str]:
    """A section with every reason and its tests, or one line if nothing was left out."""
    tests_by_reason: dict[str, list[str]] = defaultdict(list)
    for reason, test in dict.fromkeys(found):
        tests_by_reason[reason].append(test)
    if not tests_by_reason:
        return [f" {NOTHING} ".center(width, "=")]
    lines = [" Left out ".center(width, "=")]
    for reason, tests in sorted(tests_by_reason.items()):
        lines += [f"{reason}:", *(f"    {test}" for test in tests)]
    return lines

"""Failures of a job, as one line for people.

A failure on an executor or in the planner's process reaches the driver wrapped in two exceptions of Spark, with their
stack traces as text. `one_line_reason` finds the line that explains it. An expected failure is a `PipelineError`;
anything else is a bug or Spark's own.
"""

from __future__ import annotations

import re
from typing import Final, final

from longhall.errors import LonghallError

REASON_MAX: Final = 300
_THROWN: Final = re.compile(r"(?:Exception|Error): ([^\n]+)")
_OURS: Final = re.compile(r"(?:PipelineError|LonghallError|Refused|Unreachable): ([^\n]+)")


@final
class PipelineError(Exception):
    """A job cannot start or go on. The message says in one line what is wrong, then what to do."""


def one_line_reason(failure: BaseException) -> str | None:
    """The reason of a failure in one line; None if it is unexpected."""
    seen: BaseException | None = failure
    while seen is not None:
        if isinstance(seen, PipelineError | LonghallError):
            return " ".join(str(seen).split())
        found = _OURS.search(str(seen))
        if found is not None:
            return found.group(1).strip()
        seen = seen.__cause__ or seen.__context__
    return None


def too_many_failures(failure: BaseException, tries: int) -> PipelineError:
    """The failure of a job whose tasks failed repeatedly for an unexpected reason: dead workers, or a bug."""
    said = str(failure)
    thrown = _THROWN.findall(said) or said.strip().splitlines() or [type(failure).__name__]
    reason = str(thrown[-1]).partition(". ")[0].strip()[:REASON_MAX]
    return PipelineError(f"tasks failed {tries} times in a row, at last with: {reason}; start again, nothing is lost")

"""What keeps a job from going on, as one line for people.

A failure on an executor or in the planner's process comes to the driver wrapped in two exceptions of Spark with their
stack traces, as text. `one_line_reason` finds the line that was meant. An end of a job that this room foresees is a
`PipelineError`; everything else is a bug or Spark's own business.
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
    """A job cannot go on, or not begin. The message says in one line what is wrong, then what to do."""


def one_line_reason(failure: BaseException) -> str | None:
    """What a failure means, in one line; None if nobody foresaw it."""
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
    """For a job whose tasks failed again and again of what nobody foresaw: dead workers, or a bug of ours."""
    said = str(failure)
    thrown = _THROWN.findall(said) or said.strip().splitlines() or [type(failure).__name__]
    reason = str(thrown[-1]).partition(". ")[0].strip()[:REASON_MAX]
    return PipelineError(f"tasks failed {tries} times in a row, at last with: {reason}; start again, nothing is lost")

"""The end of a command: its exit code, and one line that says what to do next.

| code | meaning                                                                     |
|------|-----------------------------------------------------------------------------|
| 0    | done                                                                        |
| 1    | refused by the node, or `doctor` found damage or copies that differ         |
| 2    | the command line, the settings or a profile is wrong                        |
| 3    | no node answers at the address                                              |
| 4    | the node answered too late                                                  |
| 5    | `serve` ended because the disk failed; what was acknowledged is safe        |
| 70   | a bug in Longhall; `LONGHALL_DEBUG=1` shows where                           |
| 130  | interrupted from the keyboard                                               |
"""

from __future__ import annotations

import enum
from typing import final

from longhall.errors import Code, LonghallError


class Exit(enum.IntEnum):
    """The codes of the table above."""

    OK = 0
    REFUSED = 1
    USAGE = 2
    UNREACHABLE = 3
    TIMED_OUT = 4
    DISK_FAILED = 5
    BUG = 70
    INTERRUPTED = 130


@final
class CommandError(Exception):
    """A command cannot go on. The message is for people: what is wrong, then what to do."""

    def __init__(self, message: str, exit_code: Exit = Exit.REFUSED) -> None:
        super().__init__(message)
        self.exit_code = exit_code


_ADVICE = {
    Code.UNKNOWN_TOPIC: "`longhall topic list` shows what there is, `longhall topic create` makes a topic",
    Code.TOPIC_EXISTS: "choose another name, or `longhall topic alter` it",
    Code.GROUP_NOT_EMPTY: "stop its consumers first",
    Code.GROUP_UNKNOWN: "`longhall group list` shows what there is",
    Code.TRANSACTION_UNKNOWN: "`longhall transaction list` shows what there is",
    Code.STORAGE_FULL: "free space on the node's disk; it recovers by itself",
    Code.STORAGE_DAMAGED: "`longhall doctor --verify` on the node's data directory shows where",
    Code.NOT_READY: "the node is starting or stopping; try again in a moment",
    Code.COMMIT_BACKLOG: "`longhall cluster status` shows which node does not keep up; it recovers by itself",
    Code.OVERLOADED: "try again in a moment",
    Code.OVER_QUOTA: "try again in a moment",
}


def explain(failure: LonghallError) -> CommandError:
    """The error of a node as the error of a command."""
    advice = _ADVICE.get(failure.code)
    late = failure.code is Code.TIMED_OUT
    words = str(failure) if str(failure) != failure.code.value else failure.code.value.replace("-", " ")
    words = words.rstrip(". ")
    return CommandError(f"{words}; {advice}" if advice else words, Exit.TIMED_OUT if late else Exit.REFUSED)

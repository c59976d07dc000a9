"""Regular expressions that operators write, with a bound on the time that a match takes.

A policy is matched against the name of every queue, and in a cluster on every replica: an expression whose matching
grows beyond a small polynomial would stop them all. An expression may have three repetitions without an end, none of
them inside another, and no references back. It is searched for anywhere in a name, as RabbitMQ does.
"""

from __future__ import annotations

import importlib
import re
from functools import lru_cache
from typing import Any, Final

from longhall.errors import Code, LonghallError

PATTERN_CHARACTERS_MAX: Final = 1024
REPETITIONS_MAX: Final = 3
FINITE_MAX: Final = 64  # A repetition of more than this counts as one without an end.
_REPEATS: Final = frozenset({"MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"})
_REFERENCES: Final = frozenset({"GROUPREF", "GROUPREF_EXISTS"})

_parser: Any = importlib.import_module("re._parser")


@lru_cache(maxsize=2048)
def compile_pattern(text: str) -> re.Pattern[str]:
    """The expression, ready to search with. INVALID_REQUEST if it is malformed or could take too long."""
    if len(text) > PATTERN_CHARACTERS_MAX:
        raise _refused(f"a pattern has at most {PATTERN_CHARACTERS_MAX} characters")
    try:
        parsed = _parser.parse(text)
        compiled = re.compile(text)
    except (re.error, OverflowError, RecursionError) as error:
        raise _refused(f"the pattern '{text}' is no regular expression: {error}") from None
    if _repetitions(parsed, False) > REPETITIONS_MAX:
        raise _refused(f"the pattern '{text}' has more than {REPETITIONS_MAX} repetitions")
    return compiled


def _repetitions(parsed: Any, inside: bool) -> int:
    """The number of repetitions without an end. INVALID_REQUEST for one inside another, and for references back."""
    count = 0
    for operator, argument in parsed:
        name = str(operator)
        if name in _REFERENCES:
            raise _refused("a pattern cannot refer back to a group")
        endless = name in _REPEATS and int(argument[1]) > FINITE_MAX
        if endless and inside:
            raise _refused("a pattern cannot have a repetition inside a repetition")
        count += endless
        repeats = name in _REPEATS and int(argument[1]) > 1
        for part in _parts(argument):
            count += _repetitions(part, inside or repeats)
    return count


def _parts(argument: Any) -> list[Any]:
    """The expressions inside the argument of an operator."""
    if isinstance(argument, _parser.SubPattern):
        return [argument]
    if isinstance(argument, (list, tuple)):
        return [part for one in argument for part in _parts(one)]
    return []


def _refused(text: str) -> LonghallError:
    return LonghallError(Code.INVALID_REQUEST, text)

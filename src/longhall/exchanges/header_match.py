"""The match of a message's headers with the arguments of a binding of a headers exchange.

    x-match       a message fits if
    all           every argument is present and equal (the default; without arguments every message fits)
    any           one argument is present and equal (without arguments none fits)
    all-with-x    like all, and arguments whose names begin with `x-` count too
    any-with-x    like any, with those

An argument without a value (void) wants the header to be present, whatever it is. Numbers are compared by value and not
by width; a number never equals a boolean.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, final

MATCH: Final = "x-match"
ALL: Final = "all"
ANY: Final = "any"
ALL_WITH_X: Final = "all-with-x"
ANY_WITH_X: Final = "any-with-x"
MATCHES: Final = (ALL, ANY, ALL_WITH_X, ANY_WITH_X)


@final
class HeaderMatch:
    """The condition of one binding."""

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        match = arguments.get(MATCH, ALL)
        self._any = match in (ANY, ANY_WITH_X)
        with_x = match in (ALL_WITH_X, ANY_WITH_X)
        self._wanted = [
            (name, value)
            for name, value in arguments.items()
            if name != MATCH and (with_x or not name.startswith("x-"))
        ]

    def fits(self, headers: Mapping[str, Any]) -> bool:
        """True if a message with these headers fits."""
        for name, value in self._wanted:
            if (name in headers and (value is None or _equal(headers[name], value))) is self._any:
                return self._any
        return not self._any


def _equal(one: Any, other: Any) -> bool:
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    return bool(one == other)

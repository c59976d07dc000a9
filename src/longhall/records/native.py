"""Whether this room runs compiled.

Few ask: where the quickest way to read bytes differs between the interpreter and compiled code by a factor of ten, and
`doctor`, which tells people what they run. What is read must be the same either way, and the tests run both.
"""

from __future__ import annotations

import types
from typing import Final


def _probe() -> None:
    """A function of this module: a Python function when interpreted, a built-in one when compiled."""


COMPILED: Final[bool] = not isinstance(_probe, types.FunctionType)

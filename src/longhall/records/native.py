"""Tells whether this room runs compiled.

Used where the fastest way to read bytes differs between the interpreter and compiled code by a factor of ten, and by
`doctor`, which reports it. The results must be the same either way, and the tests run both.
"""

from __future__ import annotations

import types
from typing import Final


def _probe() -> None:
    """A function of this module: a Python function when interpreted, a built-in one when compiled."""


COMPILED: Final[bool] = not isinstance(_probe, types.FunctionType)

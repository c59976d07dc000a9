"""Randomness for ids and secrets."""

from __future__ import annotations

import os
import secrets
from typing import final


@final
class RealEntropy:
    """The kernel's generator."""

    def bytes(self, size: int) -> bytes:
        return os.urandom(size)

    def below(self, bound: int) -> int:
        return secrets.randbelow(bound)

"""What breaks things and heals them, whatever it is that breaks: one machine, or a cluster."""

from __future__ import annotations

from typing import Protocol


class Raging(Protocol):
    """See the module."""

    happened: int

    async def rage(self, seconds: float, calm_s: float) -> None:
        """Break things for so long, with about `calm_s` between two of them."""

    def heal(self) -> None:
        """Nothing is broken any more."""

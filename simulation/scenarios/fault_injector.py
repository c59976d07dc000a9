"""What breaks things and heals them, whatever it is that breaks: one machine, or a cluster."""

from __future__ import annotations

from typing import Protocol


class FaultInjector(Protocol):
    """See the module."""

    happened: int

    async def inject_faults(self, seconds: float, calm_s: float) -> None:
        """Break things for so long, with about `calm_s` between two of them."""

    def heal(self) -> None:
        """Nothing is broken any more."""

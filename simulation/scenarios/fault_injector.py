"""The interface of fault injectors, of a single machine or of a cluster."""

from __future__ import annotations

from typing import Protocol


class FaultInjector(Protocol):
    """Injects faults for some time and heals them."""

    happened: int

    async def inject_faults(self, seconds: float, calm_s: float) -> None:
        """Inject faults for so many seconds, with about `calm_s` between two of them."""

    def heal(self) -> None:
        """Heal all faults."""

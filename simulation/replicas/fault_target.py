"""What faults need of several nodes and their coordinator, however much of a node there is to each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from simulation.world import Host, Simulation


class FaultTarget(Protocol):
    """See the module."""

    simulation: Simulation
    numbers: list[int]  # Their numbers.
    down: set[int]  # Kept down on purpose.
    lost: set[int]  # Gone for good.

    def host(self, node: int) -> Host:
        """The machine of a node."""

    def hall_id(self) -> str:
        """The hall that they keep; empty while no node runs."""

    def leader_number(self) -> int:
        """The node that is on record as leader; 0 for none."""

    def in_sync(self) -> list[int]:
        """Those that are on record as having everything."""

    def cut_coordinator(self, node: int) -> None:
        """Nothing between this node and the coordinator."""

    def heal_coordinator(self, node: int) -> None:
        """Likewise."""

    def lose_words(self, chance: float) -> None:
        """So many calls to the coordinator get lost, before or after they were done."""

    def expire_session(self, node: int) -> None:
        """The coordinator gives the node up, although it lives."""

    def pause(self, node: int) -> Callable[[], None] | None:
        """As SIGSTOP does; returns what lets it go on. None if it is not running."""

    async def stop(self, node: int) -> None:
        """Stop it cleanly, if it is running; it is started again."""

    async def start_copy(self, node: int, seconds: float) -> None:
        """A copy of its directory runs for so long on another machine, beside it."""

    async def wait_until_settled(self) -> None:
        """Everybody is in sync."""

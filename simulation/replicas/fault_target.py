"""What faults need of a cluster: its hosts, its coordinator and the state on record."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from simulation.world import Host, Simulation


class FaultTarget(Protocol):
    """A cluster that faults can be injected into: a `SimulatedCluster` or a `LogCluster`."""

    simulation: Simulation
    numbers: list[int]  # Node numbers.
    down: set[int]  # Nodes that a fault keeps down.
    lost: set[int]  # Nodes that never come back.

    def host(self, node: int) -> Host:
        """The machine of a node."""

    def hall_id(self) -> str:
        """The id of the hall; empty while no node runs."""

    def leader_number(self) -> int:
        """The leader on record; 0 if there is none."""

    def in_sync(self) -> list[int]:
        """The in-sync set on record."""

    def cut_coordinator(self, node: int) -> None:
        """Cut the link between this node and the coordinator."""

    def heal_coordinator(self, node: int) -> None:
        """Heal the link between this node and the coordinator."""

    def lose_words(self, chance: float) -> None:
        """Lose this share of the calls to the coordinator, before or after they were carried out."""

    def expire_session(self, node: int) -> None:
        """Expire the node's session although the node is alive."""

    def pause(self, node: int) -> Callable[[], None] | None:
        """Pause the node as SIGSTOP does; returns the function that resumes it, or None if the node is not running."""

    async def stop(self, node: int) -> None:
        """Stop the node cleanly, if it is running; it is started again."""

    async def start_copy(self, node: int, seconds: float) -> None:
        """Run a copy of the node's directory on another machine for so long, beside the node."""

    async def wait_until_settled(self) -> None:
        """Wait until every replica is in sync."""

"""What the management API and the metrics of RabbitMQ's names read of a node, and the interface that provides it.

The node fulfils `ManagedNode`. Every process of a node, and every node of a cluster, has an AMQP door of its own: a
report is of one process, and the one that is asked gathers those of the others.
"""

from __future__ import annotations

from typing import Protocol

import msgspec

from longhall.doors.amqp.listing import DoorReport


class NodeFacts(msgspec.Struct, array_like=True):
    """The state of one process."""

    name: str
    version: str
    started_ms: int = 0
    now_ms: int = 0
    os_pid: int = 0
    descriptors: int = 0
    descriptors_max: int = 0
    sockets: int = 0
    sockets_max: int = 0
    resident_bytes: int = 0
    memory_bytes: int = 0  # Of the memory budget.
    memory_limit_bytes: int = 0
    memory_alarm: bool = False
    disk_free_bytes: int = 0
    disk_limit_bytes: int = 0
    disk_alarm: bool = False
    processors: int = 1
    draining: bool = False
    leads: bool = True
    listeners: list[tuple[str, str, int]] = []  # Protocol, address and port.


class NodeReport(msgspec.Struct, array_like=True):
    """One process: its state and its AMQP door."""

    facts: NodeFacts
    door: DoorReport


class ManagedNode(Protocol):
    """A node as its operators see it."""

    @property
    def name(self) -> str:
        """The name of this process."""

    @property
    def cluster_name(self) -> str: ...

    @property
    def users(self) -> list[str]:
        """The access keys that may log in; empty if every login is accepted."""

    @property
    def shows_queues(self) -> bool:
        """True if the metrics of this process are to have the queues: one node of a cluster has them."""

    def leader_name(self) -> str:
        """The name of the process that leads the hall; empty if none is known."""

    def here(self, with_connections: bool) -> NodeReport:
        """This process."""

    async def own(self, with_connections: bool) -> list[NodeReport]:
        """All processes of this node."""

    async def everywhere(self, with_connections: bool) -> list[NodeReport]:
        """All processes of the cluster that answer."""

    async def close_connection(self, name: str, reason: str) -> bool:
        """Close a connection, wherever it is; False if there is none of this name."""

    async def trouble(self) -> str | None:
        """Why a message could not be sent now; None if it could."""

"""The operations of whoever runs a cluster: hosts, replication groups, the feature level, the background scrub.

An operation that takes a while replies as soon as it has begun, with a sentence about what has begun; `/cluster` shows
how far it is.
"""

from __future__ import annotations

import msgspec

from longhall.cluster.rpc.operation import Operation


class AddHost(Operation[str]):
    """Have a host store replicas."""

    node: int


class DrainHost(Operation[str]):
    """Move replicas and leadership away from a host."""

    node: int


class MoveReplica(Operation[str]):
    """Move the replica of one host to another."""

    source: int
    target: int


class SpreadReplicas(Operation[str]):
    """Move one replica so that racks are used more evenly."""


class TransferLeadership(Operation[str]):
    """Have this host lead."""

    node: int


class SetReplicationFactor(Operation[str]):
    """Have so many replicas."""

    factor: int


class AddGroup(Operation[str]):
    """Have a replication group on these hosts; the first of them leads if it can. Reserved, they store nothing else."""

    name: str
    hosts: list[int]
    reserved: bool


class RemoveGroup(Operation[str]):
    """End a replication group in which nothing is placed."""

    name: str


class RaisedLevel(msgspec.Struct, kw_only=True):
    """The feature level before and after, the newest that is possible, and what stands against more."""

    before: int
    level: int
    possible: int
    obstacles: list[str]


class RaiseFeatureLevel(Operation[RaisedLevel]):
    """Raise the feature level to this one, 0 for the newest that is possible; with `dry_run` only say what would be."""

    level: int
    dry_run: bool


class ScrubStatus(msgspec.Struct, kw_only=True):
    """How far the scrub of one hall on one node is. Counters are those of its process."""

    node: int
    wing: str = ""
    passes: int = 0  # Ended since the process began.
    ratio: float = 0.0
    bytes_done: int = 0
    bytes_total: int = 0
    damage: int = 0
    repaired: int = 0
    damaged_now: list[str] = []
    damaged_count: int = 0
    completed_ms: int = 0  # 0 for never.
    interval_ms: int = 0
    reason: str = ""  # Why nothing is known.


class ScrubNodes(Operation[list[ScrubStatus]]):
    """How far the scrub is on every node; with `begin`, a pass begins on all of them."""

    begin: bool

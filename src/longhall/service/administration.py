"""Operations of an operator: hosts, replication groups, the feature level, the background scrub.

An operation that takes a while replies as soon as it has begun, with a sentence about what has begun; `/cluster` shows
its progress.
"""

from __future__ import annotations

import msgspec

from longhall.cluster.placement.cluster_map import MapPage
from longhall.cluster.placement.group_balancer import BalancePlan
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


class ReplicaProgress(msgspec.Struct, kw_only=True):
    """How far one replica has the log, and when it last had all of it; -1 if that is not known."""

    node: int
    index: int
    caught_up_ms: int


class ReplicationProgress(msgspec.Struct, kw_only=True):
    """The last committed entry of a replication group, and its replicas as the leader knows them."""

    committed: int
    replicas: list[ReplicaProgress]


class DescribeReplication(Operation[ReplicationProgress]):
    """How far each replica of the hall has the log."""


class SetReplicationFactor(Operation[str]):
    """Change the number of replicas."""

    factor: int


class AddGroup(Operation[str]):
    """Create a replication group on these hosts, or move it there. Reserved hosts store nothing else."""

    name: str
    hosts: list[int]
    reserved: bool


class RemoveGroup(Operation[str]):
    """Remove a replication group in which nothing is placed."""

    name: str


class MapCluster(Operation[MapPage]):
    """A page of the cluster map: up to `limit` topics and queues with this prefix, behind the name `after`."""

    prefix: str = ""
    after: str = ""
    limit: int = 1000


class BalanceGroups(Operation[BalancePlan]):
    """Move the leadership of groups so that hosts lead equal shares; with `dry_run` only report the plan."""

    dry_run: bool = False


class RaisedLevel(msgspec.Struct, kw_only=True):
    """The feature level before and after, the newest possible one, and what prevents a higher one."""

    before: int
    level: int
    possible: int
    obstacles: list[str]


class RaiseFeatureLevel(Operation[RaisedLevel]):
    """Raise the feature level to this one, 0 for the newest possible; with `dry_run` only report the outcome."""

    level: int
    dry_run: bool


class ScrubStatus(msgspec.Struct, kw_only=True):
    """The progress of the scrub of one hall on one node. Counters are those of its process."""

    node: int
    wing: str = ""
    passes: int = 0  # Completed since the process started.
    ratio: float = 0.0
    bytes_done: int = 0
    bytes_total: int = 0
    damage: int = 0
    repaired: int = 0
    damaged_now: list[str] = []
    damaged_count: int = 0
    completed_ms: int = 0  # 0 for never.
    interval_ms: int = 0
    reason: str = ""  # Why the status is unknown.


class ScrubNodes(Operation[list[ScrubStatus]]):
    """The progress of the scrub on every node; with `begin`, a pass begins on all of them."""

    begin: bool

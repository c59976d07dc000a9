"""The reply of `/cluster`: the hosts of the cluster and their state. Values only."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from longhall.console.metrics import Family, Sample, counter, gauge, labels


class HostView(msgspec.Struct, kw_only=True):
    """One host. Only the leader knows its lag; in replies of other nodes it is null."""

    node: int
    alive: bool | None  # Null for a host that is registered and does not answer.
    leads: bool
    manages: bool
    in_sync: bool
    keeps: bool = True  # False for a host without a replica, which only serves its doors.
    leaving: bool = False  # It stores a replica until others have caught up.
    drained: bool = False  # It must store nothing.
    role: str = ""  # "front" for a front end.
    copied_bytes: int | None = None  # During a full sync: the bytes copied,
    copied_bytes_total: int | None = None  # and their total.
    connected: bool | None = None
    lag_entries: int | None = None
    lag_ms: int | None = None
    kafka: str = ""
    sqs: str = ""
    http: str = ""
    peers: str = ""
    doors: dict[str, str] = {}  # The addresses of its other doors, by name.
    rack: str = ""
    unfit: str = ""  # Why it should not lead: its disk is full, its copy is damaged, or it is being repaired.
    halted: str = ""  # Why it is fenced although it runs.
    level_min: int | None = None  # The feature levels that it knows; null while it is down.
    level_max: int | None = None


class WingView(msgspec.Struct, kw_only=True):
    """An additional replication group."""

    name: str
    number: int
    leader: int  # 0 for none.
    epoch: int
    hosts: list[int]  # Hosts with a process of it; the first is the preferred leader.
    keepers: list[int]
    in_sync: list[int]
    reserved: bool = False
    placed: int | None = None  # The number of topics and queues in it; None at a node without the catalogue.


class ClusterView(msgspec.Struct, kw_only=True):
    """The cluster, as the host `node` sees it."""

    node: int
    hall: str
    leader: int
    epoch: int
    in_sync_min: int
    serving: bool  # True if this host leads and serves clients.
    committed: int
    applied: int
    hosts: list[HostView]
    factor: int = 0  # The wanted number of replicas.
    level: int = 1  # The feature level: the formats that all nodes may write.
    level_possible: int = 1  # The highest level that is possible now.
    wings: list[WingView] = []
    host_wings: int = 0  # The number of hosts that should have a wing.
    divergent: list[int] = []  # Nodes whose state differs from the majority's; known to the leader.
    comparisons: int = 0  # How often this node, as leader, compared the states of the replicas.
    out_of_service: str = ""  # Why the replica on this host is being repaired; empty while it is not.
    apply_failures: int = 0  # Counters of this process: entries that could not be applied,
    divergences: int = 0  # states that differed from the majority's,
    full_syncs: int = 0  # and full syncs for one of these reasons.


def company_families(view: ClusterView) -> Iterator[Family]:
    """The same as metric families."""
    yield gauge("longhall_cluster_leader", "The number of the node that leads the hall; 0 for none.", view.leader)
    yield gauge("longhall_cluster_epoch", "The epoch of the leader.", view.epoch)
    yield gauge("longhall_cluster_feature_level", "The feature level: what all nodes may write.", view.level)
    yield gauge("longhall_cluster_in_sync", "Nodes in sync.", sum(host.in_sync for host in view.hosts))
    keepers = sum(host.keeps for host in view.hosts)
    yield gauge("longhall_cluster_keepers", "Nodes that keep the hall, in sync or not.", keepers)
    yield gauge("longhall_cluster_factor", "How many nodes should.", view.factor)
    yield gauge("longhall_cluster_nodes", "Nodes that answer.", sum(host.alive is True for host in view.hosts))
    yield gauge("longhall_cluster_committed_index", "The last entry that is known to be committed.", view.committed)
    yield gauge("longhall_cluster_applied_index", "The last entry that is applied here.", view.applied)
    halted = sum(bool(host.halted) for host in view.hosts)
    yield gauge(
        "longhall_cluster_halted", "Nodes that run and take no part: their copy contradicts the record.", halted
    )
    failed = float(bool(view.out_of_service))
    divergent: list[Sample] = [
        ("", labels(("node", str(host.node))), float(host.node in view.divergent)) for host in view.hosts if host.keeps
    ]
    help = "1 for a replica whose state differs from the others'; the leader knows."
    yield Family("longhall_replica_divergent", "gauge", help, divergent)
    yield counter("longhall_replica_comparisons_total", "Marks at which states were compared.", view.comparisons)
    yield gauge("longhall_replica_out_of_service", "1 while the replica on this node is being repaired.", failed)
    yield counter(
        "longhall_replica_apply_failures_total", "Entries that the replica could not apply.", view.apply_failures
    )
    yield counter(
        "longhall_replica_divergences_total", "Times that its state was not the majority's.", view.divergences
    )
    yield counter(
        "longhall_replica_repairs_total", "Copies given up for a full sync for these reasons.", view.full_syncs
    )
    placed: list[Sample] = [
        ("", labels(("wing", wing.name)), float(wing.placed)) for wing in view.wings if wing.placed is not None
    ]
    yield Family("longhall_wing_placed", "gauge", "Topics and queues placed in a wing.", placed)
    lags = [host for host in view.hosts if host.lag_entries is not None]
    entries: list[Sample] = [("", labels(("node", str(host.node))), float(host.lag_entries or 0)) for host in lags]
    seconds: list[Sample] = [("", labels(("node", str(host.node))), (host.lag_ms or 0) / 1000) for host in lags]
    yield Family("longhall_replica_lag_entries", "gauge", "Entries that a follower has not synced.", entries)
    yield Family("longhall_replica_lag_seconds", "gauge", "How long a follower has been behind.", seconds)


def peer_families(refused: Mapping[str, int]) -> Iterator[Family]:
    """Connections between nodes that were refused, by reason."""
    samples: list[Sample] = [("", labels(("reason", reason)), float(times)) for reason, times in refused.items()]
    help = "Connections at the peers port that were refused, or to a listener that did not prove the secret, by reason."
    yield Family("longhall_cluster_peers_refused_total", "counter", help, samples)

"""What `/cluster` shows: the hosts that keep a hall together, and how each of them does. Values only."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from longhall.console.metrics import Family, Sample, counter, gauge, labels


class HostView(msgspec.Struct, kw_only=True):
    """One host. How far it is behind only the leader knows; elsewhere that is null."""

    node: int
    alive: bool | None  # Null for one that is registered and does not answer.
    leads: bool
    manages: bool
    in_sync: bool
    keeps: bool = True  # Or serves its doors, and no more.
    leaving: bool = False  # It keeps the hall until others have what it has.
    drained: bool = False  # It is to keep nothing.
    copied_bytes: int | None = None  # While it fetches everything: so much of
    copied_bytes_total: int | None = None  # so much.
    connected: bool | None = None
    lag_entries: int | None = None
    lag_ms: int | None = None
    kafka: str = ""
    sqs: str = ""
    http: str = ""
    peers: str = ""
    rack: str = ""
    unfit: str = ""  # Why it should not lead: its disk is full, its copy is damaged, or it is being repaired.
    halted: str = ""  # Why it takes no part although it runs.
    level_min: int | None = None  # The feature levels that it knows; null while it is away.
    level_max: int | None = None


class WingView(msgspec.Struct, kw_only=True):
    """A hall of its own beside the hall."""

    name: str
    number: int
    leader: int  # 0 for none.
    epoch: int
    hosts: list[int]  # With a process of it; the first is to lead it.
    keepers: list[int]
    in_sync: list[int]
    reserved: bool = False
    placed: int = 0  # Topics and queues.


class ClusterView(msgspec.Struct, kw_only=True):
    """All of them, as the host `node` sees it."""

    node: int
    hall: str
    leader: int
    epoch: int
    in_sync_min: int
    serving: bool  # Whether this host leads, and clients can be served.
    committed: int
    applied: int
    hosts: list[HostView]
    factor: int = 0  # How many copies there should be.
    level: int = 1  # The feature level: what all of them may write.
    level_possible: int = 1  # What it could be raised to.
    wings: list[WingView] = []
    divergent: list[int] = []  # Nodes whose state differs from the others', as the leader knows.
    comparisons: int = 0  # Marks at which this node, as leader, compared the states of the replicas.
    out_of_service: str = ""  # Why the replica on this host is being repaired; empty while it is not.
    apply_failures: int = 0  # Of this process: entries that could not be applied,
    divergences: int = 0  # states that were not those of the majority,
    full_syncs: int = 0  # and copies that were given up for one of these reasons.


def company_families(view: ClusterView) -> Iterator[Family]:
    """The same as numbers."""
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
    placed: list[Sample] = [("", labels(("wing", wing.name)), float(wing.placed)) for wing in view.wings]
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

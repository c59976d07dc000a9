"""The cluster as the console shows it, read from the session and the replica at each request."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Final

import msgspec

from longhall.broker.feature_gates import OLDEST
from longhall.cluster.membership.feature_level import newest_of
from longhall.cluster.membership.liveness import Liveness
from longhall.cluster.membership.reassignment import leaving_of
from longhall.console.cluster_view import ClusterView, HostView, WingView, company_families, peer_families
from longhall.console.http import Response
from longhall.console.metrics import Family
from longhall.errors import Code, LonghallError
from longhall.names import CATALOGUE_SHARD
from longhall.node.cluster_node import ClusterNode
from longhall.service.administration import ReplicaProgress, ReplicationProgress

OTHER_DOORS: Final = ("amqp", "stomp", "stomp_websocket", "management", "prometheus")


def view_of(cluster_node: ClusterNode, alive: Mapping[int, bool | None]) -> ClusterView:
    """The cluster as this node sees it. `alive` says which of the registered nodes answer."""
    session, member = cluster_node.session, cluster_node.member
    leader = session.state.leader
    in_sync = session.in_sync(CATALOGUE_SHARD)
    living = {host.node: host for host in session.members()}
    status = member.status() if member is not None else None
    followers = {one.node: one for one in status.followers} if status is not None and session.serving else {}
    fetching = status.fetching if status is not None else None
    leaving = leaving_of(session.state, session.drained)
    outlook = session.metadata.outlook
    repairs = cluster_node.place.repairs
    hosts: list[HostView] = []
    for node in sorted({*living, *session.replicas(CATALOGUE_SHARD)}):
        view = HostView(
            node=node,
            alive=alive.get(node) if node in living else False,
            leads=node == leader,
            manages=node == session.controller,
            in_sync=node in in_sync,
            keeps=node in session.state.replicas,
            leaving=node in leaving,
            drained=node in session.drained,
        )
        if fetching is not None and fetching.node == node:
            view.copied_bytes, view.copied_bytes_total = fetching.bytes_done, fetching.bytes_total
        if node in living:
            host = living[node]
            view.kafka, view.sqs, view.http, view.peers, view.rack = (
                host.kafka,
                host.sqs,
                host.http,
                host.peers,
                host.rack,
            )
            described = session.living[node].addresses
            view.doors = {door: described[door] for door in OTHER_DOORS if door in described}
            view.level_min, view.level_max = OLDEST, newest_of(session.living[node])
            view.role = session.living[node].role
            view.unfit, view.halted = session.living[node].unfit, session.living[node].halted
        follower = followers.get(node)
        if follower is not None:
            view.connected, view.lag_entries, view.lag_ms = follower.connected, follower.lag_entries, follower.lag_ms
        hosts.append(view)
    return ClusterView(
        node=session.node,
        hall=cluster_node.hall_id,
        leader=leader,
        epoch=session.epoch(CATALOGUE_SHARD),
        in_sync_min=cluster_node.in_sync_min,
        serving=session.leads(CATALOGUE_SHARD),
        committed=status.committed if status is not None else 0,
        applied=status.applied if status is not None else 0,
        hosts=hosts,
        factor=session.factor,
        level=outlook.level,
        level_possible=outlook.possible,
        wings=_wings(cluster_node),
        host_wings=directory.host_wings_wanted() if (directory := cluster_node.group_directory) is not None else 0,
        divergent=status.divergent if status is not None else [],
        comparisons=status.compared if status is not None else 0,
        out_of_service=repairs.reason,
        apply_failures=repairs.apply_failures,
        divergences=repairs.divergences,
        full_syncs=repairs.full_syncs,
    )


def _wings(cluster_node: ClusterNode) -> list[WingView]:
    group_directory = cluster_node.group_directory
    has_catalogue = cluster_node.session.node in cluster_node.session.replicas(CATALOGUE_SHARD)
    found: list[WingView] = []
    for wing in group_directory.records.values() if group_directory is not None else ():
        client = group_directory.client(wing.number) if group_directory is not None else None
        if client is None or group_directory is None or not wing.hosts:
            continue
        state = client.state
        view = WingView(
            name=wing.name,
            number=wing.number,
            leader=state.leader if client.is_led else 0,
            epoch=state.epoch,
            hosts=list(wing.hosts),
            keepers=list(state.replicas),
            in_sync=list(state.in_sync),
            reserved=wing.reserved,
            placed=len(group_directory.placed_in(wing.number)) if has_catalogue else None,
        )
        found.append(view)
    return sorted(found, key=lambda wing: wing.number)


async def families_of(cluster_node: ClusterNode, liveness: Liveness) -> Iterable[Family]:
    """The same as metric families."""
    view = view_of(cluster_node, await liveness.probe(cluster_node.session.living))
    return [*company_families(view), *peer_families(cluster_node.peers.refused)]


async def answer(cluster_node: ClusterNode, liveness: Liveness) -> Response:
    """The response to `/cluster`."""
    view = view_of(cluster_node, await liveness.probe(cluster_node.session.living))
    return Response(HTTPStatus.OK, msgspec.json.encode(view), "application/json")


def progress_of(cluster_node: ClusterNode, now_ms: int) -> ReplicationProgress:
    """How far each replica has the log. LonghallError(NOT_LEADER) at a node that does not lead."""
    member = cluster_node.member
    if member is None or not cluster_node.session.leads(CATALOGUE_SHARD):
        raise LonghallError(Code.NOT_LEADER, "this node does not lead")
    status = member.status()
    replicas = [ReplicaProgress(node=status.node, index=status.index, caught_up_ms=now_ms)]
    for follower in status.followers:
        caught_up_ms = now_ms - follower.lag_ms if follower.connected else -1
        replicas.append(ReplicaProgress(node=follower.node, index=follower.index, caught_up_ms=caught_up_ms))
    return ReplicationProgress(committed=status.committed, replicas=replicas)

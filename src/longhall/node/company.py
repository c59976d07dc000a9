"""What the console shows of the cluster, read from the seat and the member at the moment somebody asks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from http import HTTPStatus

import msgspec

from longhall.broker.gates import OLDEST
from longhall.cluster.levels import newest_of
from longhall.cluster.liveness import Liveness
from longhall.cluster.moving import leaving_of
from longhall.console.company import ClusterView, HostView, WingView, company_families, peer_families
from longhall.console.http import Response
from longhall.console.metrics import Family
from longhall.names import CATALOGUE_SHARD
from longhall.node.fellowship import Fellowship


def view_of(fellowship: Fellowship, alive: Mapping[int, bool | None]) -> ClusterView:
    """How things stand, as this node sees it. `alive` says which of the registered nodes answer."""
    seat, member = fellowship.seat, fellowship.member
    leader = seat.state.leader
    in_sync = seat.in_sync(CATALOGUE_SHARD)
    living = {host.node: host for host in seat.members()}
    status = member.status() if member is not None else None
    followers = {one.node: one for one in status.followers} if status is not None and seat.serving else {}
    fetching = status.fetching if status is not None else None
    leaving = leaving_of(seat.state, seat.drained)
    outlook = seat.outlook
    repairs = fellowship.place.repairs
    hosts: list[HostView] = []
    for node in sorted({*living, *seat.replicas(CATALOGUE_SHARD)}):
        view = HostView(
            node=node,
            alive=alive.get(node) if node in living else False,
            leads=node == leader,
            manages=node == seat.manager,
            in_sync=node in in_sync,
            keeps=node in seat.state.replicas,
            leaving=node in leaving,
            drained=node in seat.drained,
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
            view.level_min, view.level_max = OLDEST, newest_of(seat.living[node])
            view.unfit, view.halted = seat.living[node].unfit, seat.living[node].halted
        follower = followers.get(node)
        if follower is not None:
            view.connected, view.lag_entries, view.lag_ms = follower.connected, follower.lag_entries, follower.lag_ms
        hosts.append(view)
    return ClusterView(
        node=seat.node,
        hall=fellowship.hall_id,
        leader=leader,
        epoch=seat.epoch(CATALOGUE_SHARD),
        in_sync_min=fellowship.in_sync_min,
        serving=seat.leads(CATALOGUE_SHARD),
        committed=status.committed if status is not None else 0,
        applied=status.applied if status is not None else 0,
        hosts=hosts,
        factor=seat.factor,
        level=outlook.level,
        level_possible=outlook.possible,
        wings=_wings(fellowship),
        divergent=status.divergent if status is not None else [],
        comparisons=status.compared if status is not None else 0,
        out_of_service=repairs.reason,
        apply_failures=repairs.apply_failures,
        divergences=repairs.divergences,
        full_syncs=repairs.full_syncs,
    )


def _wings(fellowship: Fellowship) -> list[WingView]:
    estate = fellowship.estate
    found: list[WingView] = []
    for wing in estate.records.values() if estate is not None else ():
        guest = estate.guest(wing.number) if estate is not None else None
        if guest is None or estate is None or not wing.hosts:
            continue
        state = guest.state
        view = WingView(
            name=wing.name,
            number=wing.number,
            leader=state.leader if guest.is_led else 0,
            epoch=state.epoch,
            hosts=list(wing.hosts),
            keepers=list(state.replicas),
            in_sync=list(state.in_sync),
            reserved=wing.reserved,
            placed=len(estate.placed_in(wing.number)),
        )
        found.append(view)
    return sorted(found, key=lambda wing: wing.number)


async def families_of(fellowship: Fellowship, liveness: Liveness) -> Iterable[Family]:
    """The same for whoever scrapes."""
    view = view_of(fellowship, await liveness.probe(fellowship.seat.living))
    return [*company_families(view), *peer_families(fellowship.peers.refused)]


async def answer(fellowship: Fellowship, liveness: Liveness) -> Response:
    """`/cluster`."""
    view = view_of(fellowship, await liveness.probe(fellowship.seat.living))
    return Response(HTTPStatus.OK, msgspec.json.encode(view), "application/json")

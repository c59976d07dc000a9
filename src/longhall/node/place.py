"""A node's place in a cluster, taken before its hall is recovered: the session, the number, and which hall it is."""

from __future__ import annotations

import logging
from typing import Final, final

import msgspec

from longhall.broker.gates import NEWEST
from longhall.broker.options import HallOptions
from longhall.broker.recover import Identity, identify, read_identity, write_identity
from longhall.cluster.card import Card, read_card, write_card
from longhall.cluster.copy_report import CopyReport, ask_report
from longhall.cluster.joining import check_level, confess, is_older_copy, number_of, outlive, share_identity
from longhall.cluster.peers import Peers
from longhall.cluster.refetch import BYTES_A_SECOND, fetch, finish_switch
from longhall.cluster.routing import addresses_of
from longhall.coordination.ports import Coordinator, ShardState, Wing
from longhall.errors import Code, LonghallError
from longhall.names import CATALOGUE_SHARD
from longhall.world.ports import World

PATIENCE_MS: Final = 120_000  # For the session of whoever had the number before; the longest session lasts half of it.

_log = logging.getLogger("longhall.node")


class RecordDoubted(LonghallError):
    """The coordinator's record contradicts what this node has: it takes no part until that is settled."""

    def __init__(self, reason: str, *, epoch: int = 0) -> None:
        super().__init__(Code.NOT_READY, reason)
        self.epoch = epoch  # The record must be of a later one to be believed.


@final
class Place:
    """See the module. `identity` is that of the directory: it may have been a lone node's until now."""

    def __init__(
        self, coordinator: Coordinator, card: Card, identity: Identity, state: ShardState, level: int, level_max: int
    ) -> None:
        self.coordinator = coordinator
        self.card = card
        self.identity = identity
        self.state = state
        self.level = level  # The feature level of the cluster,
        self.level_max = level_max  # and the newest that this node knows.
        self.root = coordinator  # Of the cluster; that of a wing is a part of it.
        self.wing: Wing | None = None  # The one that this node belongs to, if it is one.
        self.fetched = False  # Everything in the directory came from another node just now.
        self.unclean = False  # The node was not stopped cleanly, and is in sync all the same: others went down with it.

    @property
    def node(self) -> int:
        """The number of this node."""
        return self.card.node

    def raise_level(self, world: World, level: int) -> None:
        """Say in the directory that it may hold what only this feature level knows. Waits for the disk."""
        self.level = level
        self.identity = msgspec.structs.replace(self.identity, format=max(self.identity.format, level))
        if self.identity.member:  # Else it is written when the directory becomes a member's.
            write_identity(world.disk, self.identity)

    def leave_cleanly(self, world: World) -> None:
        """Everything is on the disk."""
        self.card.clean = True
        write_card(world.disk, self.card)


async def take_place(
    world: World,
    coordinator: Coordinator,
    options: HallOptions,
    wished: int,
    *,
    damaged: bool = False,
    source: int = 0,
    copy_bytes_a_second: int = BYTES_A_SECOND,
    level_max: int = NEWEST,
    patience_ms: int = PATIENCE_MS,
) -> Place:
    """Settle everything with the coordinator. CoordinationError or LonghallError when that cannot be.

    With a `source`, everything is fetched from that node; if it cannot be now, it will be asked for again. For
    `patience_ms` it waits until whoever had the number on another directory is gone.
    """
    await check_level(coordinator, level_max)
    disk = world.disk
    finish_switch(disk)
    card = read_card(disk, world.entropy)
    own = read_identity(disk, level_max)
    if own is not None and own.member:
        await check_record(coordinator, card)
    card.node = await number_of(coordinator, card, wished)
    probe = Peers(world, own.hall_id if own is not None else "", card.node, card.life)
    try:
        place = await _settle(world, coordinator, options, card, own, probe, damaged, level_max, patience_ms)
        if source and source != card.node:
            place.fetched = await _fetch(world, place, source, copy_bytes_a_second)
        return place
    finally:
        await probe.close()


async def check_record(coordinator: Coordinator, card: Card) -> None:
    """RecordDoubted if the coordinator has no record of the cluster, or an older one than this node has seen."""
    state = await coordinator.shard(CATALOGUE_SHARD)
    if state is None:
        raise RecordDoubted("the coordinator has lost the record of the cluster")
    if state.revision < card.revision:
        raise RecordDoubted("the coordinator has an older record of the cluster than this node has seen")


async def _settle(
    world: World,
    coordinator: Coordinator,
    options: HallOptions,
    card: Card,
    own: Identity | None,
    probe: Peers,
    damaged: bool,
    level_max: int,
    patience_ms: int,
) -> Place:
    disk = world.disk

    async def ask(node: int) -> CopyReport | None:
        members = await coordinator.members()
        probe.addresses = addresses_of({number: one.addresses.get("peer", "") for number, one in members.items()})
        return await ask_report(probe, node)

    await outlive(coordinator, card.node, card.directory, patience_ms, ask)
    clean, card.clean = card.clean, False
    card.life += 1
    write_card(disk, card)
    older = await is_older_copy(coordinator, card)
    proposed = own or Identity(
        hall_id=world.entropy.bytes(16).hex(), shards=options.shards, secret=world.entropy.bytes(32).hex(), member=True
    )
    first_level = own.format if own is not None and own.member else level_max
    shared = await share_identity(coordinator, card.node, proposed, first_level)
    level = await check_level(coordinator, level_max)
    shared = msgspec.structs.replace(shared, format=level)
    identity = identify(disk, world.entropy, options, shared, level_max)
    lost = "is empty" if own is None or damaged else "is an older copy of itself" if older else ""
    state = await confess(coordinator, card.node, clean=clean, lost=lost, ask=ask)
    place = Place(coordinator, card, identity, state, level, level_max)
    place.unclean = not clean and card.node in state.in_sync and len(state.in_sync) > 1
    if identity.format < level:
        place.raise_level(world, level)
    return place


async def _fetch(world: World, place: Place, source: int, copy_bytes_a_second: int) -> bool:
    """Only for a directory that cannot be read: what of it can be compared with the source is not known."""
    members = await place.coordinator.members()
    peers = Peers(world, place.identity.hall_id, place.node, place.card.life)
    peers.level, peers.level_max = place.level, place.level_max
    peers.addresses = addresses_of({number: one.addresses.get("peer", "") for number, one in members.items()})
    try:
        await fetch(world, peers, source, copy_bytes_a_second)
    except (OSError, TimeoutError, LonghallError) as error:
        _log.warning("the full sync failed; it is tried again", extra={"from": source, "reason": str(error)})
        return False
    finally:
        await peers.close()
    return True


def as_member(identity: Identity) -> Identity:
    """The same directory, now one of several."""
    return msgspec.structs.replace(identity, member=True)

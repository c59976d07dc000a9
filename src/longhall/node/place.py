"""A node's place in a cluster, taken before its hall is recovered: the session, the number, and which hall it is."""

from __future__ import annotations

from typing import final

import msgspec

from longhall.broker.options import HallOptions
from longhall.broker.recover import Identity, identify, read_identity
from longhall.cluster.card import Card, read_card, write_card
from longhall.cluster.joining import confess, number_of, share_identity
from longhall.coordination.ports import Coordinator, ShardState
from longhall.world.ports import World


@final
class Place:
    """See the module. `identity` is that of the directory: it may have been a lone node's until now."""

    def __init__(self, coordinator: Coordinator, card: Card, identity: Identity, state: ShardState) -> None:
        self.coordinator = coordinator
        self.card = card
        self.identity = identity
        self.state = state

    @property
    def node(self) -> int:
        """The number of this node."""
        return self.card.node

    def leave_cleanly(self, world: World) -> None:
        """Everything is on the disk."""
        self.card.clean = True
        write_card(world.disk, self.card)


async def take_place(world: World, coordinator: Coordinator, options: HallOptions, wished: int) -> Place:
    """Settle everything with the coordinator. CoordinationError or LonghallError when that cannot be."""
    disk = world.disk
    card = read_card(disk, world.entropy)
    own = read_identity(disk)
    card.node = await number_of(coordinator, card, wished)
    clean, card.clean = card.clean, False
    card.life += 1
    write_card(disk, card)
    proposed = own or Identity(
        hall_id=world.entropy.bytes(16).hex(), shards=options.shards, secret=world.entropy.bytes(32).hex(), member=True
    )
    shared = await share_identity(coordinator, card.node, proposed)
    identity = identify(disk, world.entropy, options, shared)
    state = await confess(coordinator, card.node, clean, empty=own is None)
    return Place(coordinator, card, identity, state)


def as_member(identity: Identity) -> Identity:
    """The same directory, now one of several."""
    return msgspec.structs.replace(identity, member=True)

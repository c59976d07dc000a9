"""The nodes of the hall and who leads what, in the words of Kafka's answers. A lone node is all of them."""

from __future__ import annotations

from typing import Final, NamedTuple

from longhall.broker.leadership import NOBODY
from longhall.doors.kafka.door import Door
from longhall.names import CATALOGUE_SHARD
from longhall.shards.shard import Shard

NO_NODE: Final = -1
LEADER_NOT_AVAILABLE: Final = 5


class Broker(NamedTuple):
    """A node, and where Kafka clients meet it."""

    node_id: int
    host: str
    port: int
    rack: str | None = None


class Placement(NamedTuple):
    """Where a partition is."""

    leader: int
    epoch: int
    replicas: list[int]
    in_sync: list[int]
    offline: list[int]

    @property
    def error_code(self) -> int:
        """What is said of a partition that nobody leads."""
        return LEADER_NOT_AVAILABLE if self.leader == NO_NODE else 0


def brokers_of(door: Door) -> list[Broker]:
    """All nodes that live. A node is among them before the others have heard of it."""
    leadership = door.hall.leadership
    found = {door.node_id: Broker(door.node_id, door.host, door.port, door.rack or None)}
    for member in leadership.members() if leadership is not None else ():
        host, _, port = member.kafka.rpartition(":")
        if host and member.node != door.node_id:
            found[member.node] = Broker(member.node, host.strip("[]"), int(port), member.rack or None)
    return [found[number] for number in sorted(found)]


def controller_of(door: Door) -> int:
    """Who makes and changes topics: whoever leads the catalogue."""
    return _leader(door, CATALOGUE_SHARD)


def coordinator_of(door: Door, key: str) -> Broker | None:
    """Who looks after a group or a transactional id; None while nobody does."""
    leader = _leader(door, door.hall.shard_of(key).number)
    return next((broker for broker in brokers_of(door) if broker.node_id == leader), None)


def placement_of(door: Door, shard: Shard) -> Placement:
    """Who keeps the partitions of a shard."""
    leadership = door.hall.leadership
    if leadership is None:
        return Placement(door.node_id, shard.epoch, [door.node_id], [door.node_id], [])
    alive = {member.node for member in leadership.members()}
    replicas = leadership.replicas(shard.number)
    return Placement(
        _leader(door, shard.number),
        max(shard.epoch, leadership.epoch(shard.number)),
        replicas,
        leadership.in_sync(shard.number),
        [node_id for node_id in replicas if node_id not in alive],
    )


def _leader(door: Door, shard: int) -> int:
    leadership = door.hall.leadership
    if leadership is None:
        return door.node_id
    leader = leadership.leader_node(shard)
    return leader if leader != NOBODY else NO_NODE

"""The nodes of the hall and who leads what, in the words of Kafka's answers. A lone node is all of them.

The processes of wings are brokers of their own, beside the nodes: clients go to them for the partitions that they keep,
and to the nodes for everything else.
"""

from __future__ import annotations

from typing import Final, NamedTuple, final

from longhall.broker.leadership import NOBODY, Host
from longhall.broker.partition import Partition
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
    """All nodes that live, and the processes of wings. A node is among them before the others have heard of it."""
    leadership = door.hall.leadership
    wings = door.hall.wings
    members: list[Host] = leadership.members() if leadership is not None else []
    if wings is not None:
        members = members + wings.brokers()
    found = {door.node_id: Broker(door.node_id, door.host, door.port, door.rack or None)}
    for member in members:
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


@final
class Places:
    """Who keeps which partition, for one answer: who lives is looked up once."""

    def __init__(self, door: Door) -> None:
        hall = door.hall
        self._door = door
        self._by_shard: dict[int, Placement] = {}
        self._alive: set[int] = set()
        if hall.leadership is not None:
            self._alive.update(member.node for member in hall.leadership.members())
        if hall.wings is not None:
            self._alive.update(host.node for host in hall.wings.brokers())

    def of(self, partition: Partition) -> Placement:
        """Where a partition is."""
        if partition.elsewhere:
            return self._in_a_wing(partition)
        shard = partition.shard
        placement = self._by_shard.get(shard.number)
        if placement is None:
            placement = self._by_shard[shard.number] = self._of_shard(shard)
        return placement

    def of_shards(self) -> list[Placement]:
        """Where all partitions are that no wing keeps."""
        return [self._of_shard(shard) for shard in self._door.hall.shards]

    def _of_shard(self, shard: Shard) -> Placement:
        door = self._door
        leadership = door.hall.leadership
        if leadership is None:
            return Placement(door.node_id, shard.epoch, [door.node_id], [door.node_id], [])
        replicas = leadership.replicas(shard.number)
        return Placement(
            _leader(door, shard.number),
            max(shard.epoch, leadership.epoch(shard.number)),
            replicas,
            leadership.in_sync(shard.number),
            self._offline(replicas),
        )

    def _in_a_wing(self, partition: Partition) -> Placement:
        wings = self._door.hall.wings
        if wings is None:  # What it was placed in went with the cluster.
            return Placement(NO_NODE, -1, [], [], [])
        kept = wings.kept(partition.topic, partition.number)
        leader = kept.leader if kept.leader != NOBODY else NO_NODE
        return Placement(leader, kept.epoch, kept.replicas, kept.in_sync, self._offline(kept.replicas))

    def _offline(self, replicas: list[int]) -> list[int]:
        return [node_id for node_id in replicas if node_id not in self._alive]


def _leader(door: Door, shard: int) -> int:
    leadership = door.hall.leadership
    if leadership is None:
        return door.node_id
    leader = leadership.leader_node(shard)
    return leader if leader != NOBODY else NO_NODE

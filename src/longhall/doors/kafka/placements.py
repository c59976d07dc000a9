"""Where partitions are: leader, replicas and in-sync set of each, as this process knows them.

It needs the hall and the number of this node, and no connection or door. A lone node is the leader and the only replica
of every partition.
"""

from __future__ import annotations

from typing import Final, NamedTuple, final

from longhall.broker.hall import Hall
from longhall.broker.leadership import NOBODY
from longhall.broker.partition import Partition
from longhall.shards.shard import Shard

NO_NODE: Final = -1


class Placement(NamedTuple):
    """The placement of a partition. A node that is not alive is offline."""

    leader: int
    epoch: int
    replicas: list[int]
    in_sync: list[int]
    offline: list[int]


def leader_of(hall: Hall, node_id: int, shard: int) -> int:
    """The node that leads a shard of the hall, or NO_NODE. A lone node, `node_id`, leads all of them."""
    leadership = hall.leadership
    if leadership is None:
        return node_id
    leader = leadership.leader_node(shard)
    return leader if leader != NOBODY else NO_NODE


@final
class Placements:
    """The placements of partitions for one response. The nodes that are alive are looked up once."""

    def __init__(self, hall: Hall, node_id: int) -> None:
        self._hall = hall
        self._node_id = node_id
        self._by_shard: dict[int, Placement] = {}
        self._alive: set[int] = set()
        if hall.leadership is not None:
            self._alive.update(member.node for member in hall.leadership.members())
        if hall.wings is not None:
            self._alive.update(host.node for host in hall.wings.brokers())

    def of(self, partition: Partition) -> Placement:
        """The placement of a partition."""
        if partition.elsewhere:
            return self._of_other_group(partition)
        shard = partition.shard
        placement = self._by_shard.get(shard.number)
        if placement is None:
            placement = self._by_shard[shard.number] = self._of_shard(shard)
        if partition.epoch_base:
            return placement._replace(epoch=partition.epoch_base + placement.epoch)
        return placement

    def of_shards(self) -> list[Placement]:
        """The placements of all partitions that the hall's own replication group stores."""
        return [self._of_shard(shard) for shard in self._hall.shards]

    def _of_shard(self, shard: Shard) -> Placement:
        leadership = self._hall.leadership
        node_id = self._node_id
        if leadership is None:
            return Placement(node_id, shard.epoch, [node_id], [node_id], [])
        replicas = leadership.replicas(shard.number)
        return Placement(
            leader_of(self._hall, node_id, shard.number),
            max(shard.epoch, leadership.epoch(shard.number)),
            replicas,
            leadership.in_sync(shard.number),
            self._offline(replicas),
        )

    def _of_other_group(self, partition: Partition) -> Placement:
        wings = self._hall.wings
        if wings is None:  # The replication group went with the cluster that had it.
            return Placement(NO_NODE, -1, [], [], [])
        kept = wings.kept(partition.topic, partition.number)
        leader = kept.leader if kept.leader != NOBODY else NO_NODE
        return Placement(leader, kept.epoch, kept.replicas, kept.in_sync, self._offline(kept.replicas))

    def _offline(self, replicas: list[int]) -> list[int]:
        return [node_id for node_id in replicas if node_id not in self._alive]

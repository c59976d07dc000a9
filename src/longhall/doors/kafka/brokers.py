"""The brokers of the cluster, as Kafka's responses name them. A lone node is the only one.

The processes of other replication groups are brokers of their own, beside the nodes: clients go to them for the
partitions that they store, and to the nodes for everything else.
"""

from __future__ import annotations

from typing import NamedTuple

from longhall.broker.leadership import Host
from longhall.doors.kafka.door import Door
from longhall.doors.kafka.placements import leader_of
from longhall.names import CATALOGUE_SHARD


class Broker(NamedTuple):
    """A broker, and the address of its Kafka door."""

    node_id: int
    host: str
    port: int
    rack: str | None = None


def brokers_of(door: Door) -> list[Broker]:
    """All nodes that are alive, and the processes of other replication groups. This node is always among them."""
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


def broker_names(door: Door) -> set[str]:
    """The numbers of all brokers that may have configurations: the live ones and the replicas of the hall."""
    leadership = door.hall.leadership
    replicas = leadership.replicas(CATALOGUE_SHARD) if leadership is not None else []
    return {str(number) for number in [*replicas, *(broker.node_id for broker in brokers_of(door))]}


def controller_of(door: Door) -> int:
    """The broker that creates and changes topics: the leader of the catalogue."""
    return leader_of(door.hall, door.node_id, CATALOGUE_SHARD)


def coordinator_of(door: Door, key: str) -> Broker | None:
    """The coordinator of a group or a transactional id; None while there is no leader."""
    leader = leader_of(door.hall, door.node_id, door.hall.shard_of(key).number)
    return next((broker for broker in brokers_of(door) if broker.node_id == leader), None)

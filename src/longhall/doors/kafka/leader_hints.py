"""Leader hints for one response: where the partitions are that this process does not lead, as far as it knows.

A client that gets a hint goes to the leader at once, without asking for metadata. Hints are computed beside an error
alone; a partition that this process does not know, and one without a leader, has none.
"""

from __future__ import annotations

from typing import final

from longhall.doors.kafka.brokers import Broker, brokers_of
from longhall.doors.kafka.door import Door
from longhall.doors.kafka.placements import NO_NODE, Placements
from longhall.doors.kafka.wire.leader_hints import LeaderHint


@final
class LeaderHints:
    """The hints of one response. Brokers and placements are looked up once."""

    def __init__(self, door: Door) -> None:
        self._hall = door.hall
        self._node_id = door.node_id
        self._placements = Placements(door.hall, door.node_id)
        self._brokers: dict[int, Broker] = {broker.node_id: broker for broker in brokers_of(door)}

    def of(self, topic: str, number: int) -> LeaderHint | None:
        """The leader of a partition; None if it is not known, or would be this node, which has just refused."""
        partition = self._hall.partition(topic, number)
        if partition is None:
            return None
        placement = self._placements.of(partition)
        broker = self._brokers.get(placement.leader) if placement.leader != NO_NODE else None
        if broker is None or broker.node_id == self._node_id:
            return None
        return LeaderHint(broker.node_id, placement.epoch, broker.host, broker.port, broker.rack)

"""The load of replication groups: the traffic of the last minutes, as their leaders count it.

A leader counts from the start of its process. So a load is updated from two counts of the same epoch, and a new leader
begins with the load that its predecessor had. The weight of the past falls by half every HALF_S.
"""

from __future__ import annotations

from typing import Final, NamedTuple, final

from longhall.cluster.placement.topic_operations import GroupTraffic

HALL: Final = 0  # The number of the main group.
HALF_S: Final = 60.0
MESSAGE_BYTES: Final = 1024  # A message is as much work as so many bytes.


class _Count(NamedTuple):
    epoch: int
    traffic: GroupTraffic
    at_s: float


@final
class GroupLoads:
    """The loads of all groups, in bytes a second. Its size is bounded by the number of groups."""

    def __init__(self) -> None:
        self._counts: dict[int, _Count] = {}
        self._loads: dict[int, float] = {}

    def note(self, group: int, epoch: int, traffic: GroupTraffic, now_s: float) -> None:
        """Take a count of a group's leader."""
        before = self._counts.get(group)
        self._counts[group] = _Count(epoch, traffic, now_s)
        if before is None or before.epoch != epoch or now_s <= before.at_s:
            return
        more_bytes = traffic.size_bytes - before.traffic.size_bytes
        more_messages = traffic.messages - before.traffic.messages
        if more_bytes < 0 or more_messages < 0:
            return  # The process has restarted, or a topic was deleted with its counters.
        seconds = now_s - before.at_s
        past = 0.5 ** (seconds / HALF_S)
        now = (more_bytes + MESSAGE_BYTES * more_messages) / seconds
        self._loads[group] = past * self.load(group) + (1 - past) * now

    def load(self, group: int) -> float:
        """The load of a group; 0 if it is not known."""
        return self._loads.get(group, 0.0)

"""The lag of consumer groups in partitions of other replication groups, for the metrics of a node.

Offsets are in the log of the hall, and the ends of partitions in the logs of their groups. So each node that has the
offsets asks the leaders of those groups when it is asked for its metrics. A group that does not answer in time has no
lag in them; the rest is complete.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Protocol, TypeVar, final

from longhall.broker.consumer_lag import ConsumerLag, Position, lag_of
from longhall.broker.hall import Hall
from longhall.broker.pending import Pending
from longhall.broker.placement import group_of
from longhall.cluster.placement.topic_operations import MeasureLags
from longhall.cluster.rpc.operation import Operation
from longhall.errors import LonghallError

ANSWER_S_MAX: Final = 1.0
POSITIONS_MAX: Final = 2000  # Of one question.

R = TypeVar("R")


class OtherGroups(Protocol):
    """The other replication groups, as they are used here."""

    def call(self, number: int, operation: Operation[R], *, now: bool) -> Pending[R]:
        """Have the leader of a group carry out an operation."""


class Operations(Protocol):
    """Fulfilled by the broker of a process."""

    def also(self, kind: type[Any], action: Callable[[Any, Any], Any]) -> None: ...


def serve_lags(hall: Hall, broker: Operations) -> None:
    """Answer the nodes of the hall, as the process of a group."""
    broker.also(MeasureLags, lambda op, caller: [lag_of(hall, position) for position in op.positions])


@final
class GroupLags:
    """Asks the groups."""

    def __init__(self, hall: Hall, groups: OtherGroups) -> None:
        self._hall = hall
        self._groups = groups

    async def measure(self, positions: Iterable[Position]) -> dict[Position, ConsumerLag]:
        """The lags at these positions, as far as their groups answer."""
        by_group: dict[int, list[Position]] = {}
        for position in positions:
            topic, number, _ = position
            partition = self._hall.partition(topic, number)
            group = group_of(partition.options.wings, number) if partition is not None and partition.elsewhere else 0
            if group:
                by_group.setdefault(group, []).append(position)
        found: dict[Position, ConsumerLag] = {}
        for some in await asyncio.gather(*(self._ask(group, places) for group, places in by_group.items())):
            found.update(some)
        return found

    async def _ask(self, group: int, positions: Sequence[Position]) -> dict[Position, ConsumerLag]:
        found: dict[Position, ConsumerLag] = {}
        try:
            async with asyncio.timeout(ANSWER_S_MAX):
                for at in range(0, len(positions), POSITIONS_MAX):
                    some = list(positions[at : at + POSITIONS_MAX])
                    lags = await self._groups.call(group, MeasureLags(some), now=True)
                    found.update({place: lag for place, lag in zip(some, lags, strict=True) if lag is not None})
        except (LonghallError, TimeoutError):
            pass  # Without a leader there is no end to compare with.
        return found

"""The parts of a queue in other replication groups: what each group reports, and the next step for all of them.

The catalogue of the hall and the catalogue of each group have numbers of open and shown parts (`parts`). They differ
while a change is under way, when a group was away, and when a Kafka producer has opened parts again in one group. The
larger number wins, so that no leader has to remember what it was about to do:

    situation                                                           step
    a group or the hall has fewer parts than another one                raise all to the largest number
    a group is filled to grow_at percent of its share                   raise all to twice as many
    all groups have been calm for a while, all parts are open, and no
        Kafka producer may know the number of parts                     close the upper half, the groups first
    every group has drained its closed parts                            hide them, the groups first

A FIFO group never changes its replication group. Partition p is in lane p modulo the number of lanes, which divides the
number of partitions at the creation, and with it every later number of parts: the remainder of a hash by the lanes is
the same before and after. So a mark in the log of each group keeps the order, and no mark spans two groups.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from longhall.errors import Code, LonghallError
from longhall.queues.parts import check_parts, decide_parts, is_calm
from longhall.queues.settings import QueueSettings


class PartsReport(msgspec.Struct, array_like=True):
    """The parts of a queue in one group. `ends` has the ends of the logs of closed parts, by partition."""

    open: int
    shown: int
    messages: int
    bytes: int
    is_quiet: bool = True  # No Kafka producer has sent for so long that all have learned the number of parts.
    is_drained: bool = True  # Every queue of the group has finished the closed parts.
    ends: dict[int, int] = {}


class PartCounts(NamedTuple):
    """The numbers of open and of shown parts."""

    open: int
    shown: int


def check_lanes(settings: QueueSettings) -> None:
    """Raises INVALID_CONFIGURATION if parts that are added would move FIFO groups between replication groups."""
    lanes = len(settings.wings)
    if settings.parts_max <= settings.partitions or not lanes:
        return
    check_parts(settings)
    if settings.partitions % lanes:
        raise LonghallError(
            Code.INVALID_CONFIGURATION,
            f"A queue that grows in {lanes} wings needs a multiple of {lanes} partitions, not {settings.partitions}: "
            "otherwise its FIFO groups would have to change their wing.",
        )


def raised(counts: PartCounts, reports: Sequence[PartsReport]) -> PartCounts:
    """The largest numbers that the hall, which has `counts`, or a group has."""
    open = max(counts.open, *(one.open for one in reports))
    return PartCounts(open, max(open, counts.shown, *(one.shown for one in reports)))


def are_calm(share: QueueSettings, parts: int, reports: Sequence[PartsReport]) -> bool:
    """True if every group is nearly empty. `share` has the settings of the queue in one group."""
    return all(is_calm(share, parts, one.messages, one.bytes) for one in reports)


def decide_open(share: QueueSettings, parts: int, reports: Sequence[PartsReport], calm_ms: int) -> int:
    """The number of parts that should be open: more if a single group is full, fewer if all are calm."""
    return max(decide_parts(share, parts, one.messages, one.bytes, calm_ms) for one in reports)

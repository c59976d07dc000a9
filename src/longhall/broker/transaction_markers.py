"""The markers of an ended transaction, in every partition that it wrote to, whichever replication group stores it.

    partition                      marker
    stored by this hall            appended here
    stored by another group        the leader of that group is asked to append it, again and again until it has
    deleted with its topic         none is needed

Invariant: `write` returns True only when every marker is committed. All markers may be written again by the next
coordinator; in a partition where the transaction has ended already a marker has no effect. A request for a marker has
the epoch of its coordinator and a number, so that a request that was delayed cannot end a later transaction.

Nothing here knows the state of the transaction, nor how another group is reached.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import Final, final

import msgspec

from longhall.broker.hall import Hall
from longhall.broker.partition import Partition
from longhall.broker.placement import group_of
from longhall.broker.send import append
from longhall.broker.waiting import committed
from longhall.errors import Code, LonghallError
from longhall.records.batch import parse_header
from longhall.records.control import build_marker
from longhall.shards.shard import Shard
from longhall.topics.decisions import Markers

PAUSE_S_MIN: Final = 0.05  # Before a group is asked again,
PAUSE_S_MAX: Final = 2.0  # doubled each time up to this.

Place = tuple[str, int]

_log = logging.getLogger("longhall.transactions")


class PartitionMarkers(msgspec.Struct, frozen=True, array_like=True):
    """The request for the markers of one transaction in some partitions of one replication group."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    number: int  # It rises with every request of one coordinator epoch; -1 for a request of an administrator.
    committed: bool
    partitions: list[tuple[str, bytes, int]]  # Topic, its id, and the number of the partition.


async def write_markers(hall: Hall, request: PartitionMarkers) -> list[Code | None]:
    """Append the markers here and wait for their commit. The reply has None, or the error, for each partition."""
    codes: list[Code | None] = []
    shards: dict[int, Shard] = {}
    for topic, topic_id, number in request.partitions:
        partition = hall.partition(topic, number)
        if partition is None or partition.topic_id != topic_id:
            codes.append(Code.UNKNOWN_TOPIC)
            continue
        code = append_marker(hall, partition, request)
        codes.append(code)
        if code is None:
            shards[partition.shard.number] = partition.shard
    for shard in shards.values():
        await committed(hall, shard)
    return codes


def append_marker(hall: Hall, partition: Partition, request: PartitionMarkers) -> Code | None:
    """Append one marker to a partition that is stored here; None, or the error if nothing was appended."""
    if partition.elsewhere:
        return Code.NOT_LEADER
    table = partition.table()
    who, epoch, coordinator_epoch = request.producer_id, request.producer_epoch, request.coordinator_epoch
    refused = table.decide_marker(who, epoch, coordinator_epoch, request.number)
    if refused is not None:
        return refused
    now_ms = hall.time.now_ms()
    marker = build_marker(request.committed, who, epoch, max(coordinator_epoch, 0), now_ms)
    code = append(hall, partition, parse_header(marker, 0), marker, 0, now_ms, message=False)
    if code is None and request.number >= 0:
        table.note_request(who, request.number)
    return code


@final
class MarkerWriter:
    """Writes the markers of prepared transactions, for the coordinator of one hall."""

    def __init__(self, hall: Hall) -> None:
        self._hall = hall
        self._requests = 0

    async def write(self, markers: Markers) -> bool:
        """Write all markers. False if this process stops before that; the next coordinator writes them then."""
        left = list(markers.partitions)
        pause_s = PAUSE_S_MIN
        while True:
            left = await self._write_round(markers, left)
            if not left:
                return True
            if self._hall.background.is_closing:
                return False
            where = ", ".join(f"{topic}-{number}" for topic, number in left[:3])
            _log.info(
                "markers of a transaction are missing and will be written again",
                extra={"transactional_id": markers.transactional_id, "partitions": len(left), "first": where},
            )
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, PAUSE_S_MAX)

    async def _write_round(self, markers: Markers, places: Iterable[Place]) -> list[Place]:
        """Ask every group once, all at the same time; returns the partitions whose marker is not known to be there."""
        by_group: dict[int, list[tuple[str, bytes, int]]] = {}
        for topic, number in places:
            partition = self._hall.partition(topic, number)
            if partition is None:
                continue  # Deleted, and the open transaction with it.
            group = group_of(partition.options.wings, number) if partition.elsewhere else self._hall.options.wing
            by_group.setdefault(group, []).append((topic, partition.topic_id, number))
        rounds = [self._write_to(group, self._request(markers, some)) for group, some in by_group.items()]
        return [place for some in await asyncio.gather(*rounds) for place in some]

    def _request(self, markers: Markers, partitions: list[tuple[str, bytes, int]]) -> PartitionMarkers:
        self._requests += 1
        return PartitionMarkers(
            markers.producer_id,
            markers.producer_epoch,
            self._hall.shard_of(markers.transactional_id).epoch,
            self._requests,
            markers.committed,
            partitions,
        )

    async def _write_to(self, group: int, request: PartitionMarkers) -> list[Place]:
        hall = self._hall
        try:
            if group == hall.options.wing:
                codes = await write_markers(hall, request)
            elif hall.wings is not None:
                codes = await hall.wings.write_markers(group, request)
            else:
                raise LonghallError(Code.NOT_READY, "this process does not know other groups yet")
        except LonghallError as error:
            _log.info("a group did not take markers", extra={"group": group, "reason": str(error)})
            codes = [error.code] * len(request.partitions)
        return [
            (topic, number)
            for (topic, _, number), code in zip(request.partitions, codes, strict=True)
            if code is not None and code is not Code.INVALID_PRODUCER_EPOCH  # A newer epoch has written its own marker.
        ]

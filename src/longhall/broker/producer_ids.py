"""Producer ids without a transactional id: every process gives them out of a block of its own.

    process                                       its block
    the leader of the catalogue                   reserved in its log by an event, given out from memory
    a follower, a worker, a front end,            reserved there too, by `ReserveProducerIds`; kept in memory
    the process of another replication group

Invariant: no id is in two blocks. A block is given away when its event is committed, and every later leader begins
behind it. The rest of a block is not used after a restart; there are 2**63 ids.

Nothing here knows how the leader is reached.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import final

import msgspec

from longhall.broker.hall import EVENT_ROOM_BYTES, Hall
from longhall.broker.topic_administration import must_lead
from longhall.broker.waiting import Commit, committed
from longhall.errors import Code, LonghallError
from longhall.names import CATALOGUE_SHARD


class ProducerIdBlock(msgspec.Struct, frozen=True, array_like=True):
    """The ids from `first` up to, but not including, `below`."""

    first: int
    below: int


async def take_producer_id(hall: Hall) -> int:
    """A new producer id, at the leader of the catalogue. A new block is committed first if the last is used up."""
    must_lead(hall)
    catalogue = hall.catalogue
    if not catalogue.has_producer_id:
        catalogue.own_producer_ids(_append_block(hall).first)
    producer_id = catalogue.take_producer_id()
    await committed(hall, hall.shards[CATALOGUE_SHARD])  # The block, which another caller may have appended just now.
    return producer_id


async def reserve_producer_ids(hall: Hall) -> ProducerIdBlock:
    """A block for another process, at the leader of the catalogue."""
    must_lead(hall)
    block = _append_block(hall)
    await committed(hall, hall.shards[CATALOGUE_SHARD])
    return block


def _append_block(hall: Hall) -> ProducerIdBlock:
    """Append the event of a new block. It may be given away when the event is committed."""
    if not hall.has_room(EVENT_ROOM_BYTES // 2):
        raise LonghallError(Code.STORAGE_FULL, "the disk is full")
    first = hall.catalogue.producer_ids_below
    event = hall.catalogue.decide_producer_ids()
    hall.append_catalogue(event, Commit())
    return ProducerIdBlock(first, event.below)


@final
class ProducerIds:
    """The producer ids of one process, for its Kafka door."""

    def __init__(self, hall: Hall, reserve: Callable[[], Awaitable[ProducerIdBlock]]) -> None:
        """`reserve` asks the leader of the catalogue for a block."""
        self._hall = hall
        self._reserve = reserve
        self._next = 0
        self._below = 0
        self._asking = asyncio.Lock()  # One question at a time: all callers take from the block that it brings.

    async def take(self) -> int:
        """An id that no other producer has. LonghallError if there is none left here and no leader answers."""
        if self._leads_catalogue:
            return await take_producer_id(self._hall)
        if self._next == self._below:
            async with self._asking:
                while self._next == self._below:
                    block = await self._reserve()
                    self._next, self._below = block.first, block.below
        self._next += 1
        return self._next - 1

    @property
    def _leads_catalogue(self) -> bool:
        """True if this process leads the main hall; the log of another replication group has no producer ids."""
        leadership = self._hall.leadership
        return not self._hall.options.wing and (leadership is None or leadership.leads(CATALOGUE_SHARD))

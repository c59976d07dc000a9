"""RepairSource: whole batches that one member has, for another whose own are damaged.

Every member answers, whether it leads or follows, for what is committed, and gives nothing that it has not checked. Who
asks checks again: checksums, offsets, and the epoch that wrote them. Batches lie alike on all members, unless the
cleaner has been at work on one of them: so what has another size is not the same. A member of an earlier version
answers that it is not ready.
"""

from __future__ import annotations

import enum
from typing import Final, final

import msgspec

from longhall.broker.fetch import PartitionFetch, supply
from longhall.broker.hall import Hall
from longhall.broker.partition import Partition
from longhall.cluster.rpc.peers import Audience, Peers
from longhall.cluster.rpc.wire import decode
from longhall.errors import Code, LonghallError
from longhall.log.epochs import Epochs
from longhall.log.segment_reads import Supplied
from longhall.log.segment_repair import Stretch, valid_headers
from longhall.records.batch import BatchHeader

READ: Final = "copies-read"
TELL: Final = "copies-damaged"
PIECE_BYTES: Final = 4 * 1024 * 1024
ANSWER_S: Final = 5.0
READS_MAX: Final = 4  # Answered at the same time.


class BatchesWanted(msgspec.Struct, kw_only=True):
    """The batches of a partition from one offset up to another; of what is read at once, the bytes from `skip` on."""

    partition: int
    first: int
    behind: int
    skip: int = 0


class DamageReport(msgspec.Struct, kw_only=True):
    """Whoever copied this partition found it damaged at this offset."""

    partition: int
    offset: int


class BatchesGiven(msgspec.Struct, kw_only=True):
    """Whole batches from the first that was asked for on, `size` bytes in all, of which this is a piece."""

    size: int
    data: bytes


class BatchState(enum.Enum):
    """What came of asking a member, or all of them."""

    WHOLE = "whole"
    DAMAGED = "damaged"  # It does not have it whole either.
    OTHERWISE = "otherwise"  # It has these offsets in other bytes.
    UNKNOWN = "unknown"  # Nobody can tell.


@final
class RepairSource:
    """The side that gives."""

    def __init__(self, hall: Hall, peers: Peers) -> None:
        self._hall = hall
        self._reading = 0
        peers.serve(READ, self._read, Audience.MEMBERS)

    async def _read(self, node: int, body: bytes) -> bytes:
        asked = decode(body, BatchesWanted)
        if not 0 <= asked.first < asked.behind or asked.skip < 0:
            raise LonghallError(Code.INVALID_REQUEST, f"there is nothing from {asked.first} to {asked.behind}")
        partition = self._hall.partitions.get(asked.partition)
        if partition is None or partition.high_watermark < asked.behind:
            raise LonghallError(Code.NOT_READY, f"partition {asked.partition} does not go as far here")
        if self._reading >= READS_MAX:
            raise LonghallError(Code.OVERLOADED, "too many ask for the same")
        self._reading += 1
        try:
            data = await read_batches(self._hall, partition, asked.first, asked.behind)
        finally:
            self._reading -= 1
        if asked.skip > len(data):
            raise LonghallError(
                Code.INVALID_REQUEST, f"{len(data)} bytes were found, and those from {asked.skip} asked for"
            )
        return msgspec.msgpack.encode(BatchesGiven(size=len(data), data=data[asked.skip : asked.skip + PIECE_BYTES]))


async def read_batches(hall: Hall, partition: Partition, first: int, behind: int) -> bytes:
    """Whole batches from the one that holds `first` on, each checked: at least one, if there is one before `behind`."""
    supplied: Supplied | None = None
    while True:
        read = partition.log.read(first, PIECE_BYTES, behind, supplied)
        if read.code is not None:
            raise LonghallError(read.code, f"partition {partition.log.partition} cannot be read at {first}")
        if read.cold is None:
            return b"".join(read.buffers)
        supplied = await supply(hall, PartitionFetch(partition, 0, 0, -1), read.cold)


async def gather(
    peers: Peers, nodes: list[int], partition: int, stretch: Stretch, epochs: Epochs
) -> tuple[BatchState, bytes]:
    """What belongs into a damaged stretch, from whichever members have it, batch by batch if need be."""
    parts: list[bytes] = []
    size = 0
    at = stretch.first
    while at < stretch.behind and size <= stretch.size_bytes:
        found, data, behind = await _from_any(peers, nodes, partition, at, stretch, epochs)
        if found is not BatchState.WHOLE:
            return found, b""
        parts.append(data)
        size += len(data)
        at = behind
    return (BatchState.WHOLE, b"".join(parts)) if size == stretch.size_bytes else (BatchState.OTHERWISE, b"")


async def _from_any(
    peers: Peers, nodes: list[int], partition: int, first: int, stretch: Stretch, epochs: Epochs
) -> tuple[BatchState, bytes, int]:
    """Batches from `first` on, and the offset behind them; or what is known when all have been asked."""
    found = BatchState.DAMAGED
    otherwise = False
    for node in nodes:
        try:
            data = await _one_read(peers, node, partition, first, stretch)
        except (OSError, TimeoutError):
            found = BatchState.UNKNOWN
            continue
        except LonghallError as error:
            if error.code is not Code.STORAGE_DAMAGED:
                found = BatchState.UNKNOWN
            continue
        headers = valid_headers(data, first, stretch.behind)
        if headers is None:
            otherwise = True
        elif are_of(headers, epochs):
            return BatchState.WHOLE, data, headers[-1].next_offset if headers else stretch.behind
    return BatchState.OTHERWISE if otherwise else found, b"", 0


def are_of(headers: list[BatchHeader], epochs: Epochs) -> bool:
    """Whether these batches were written under the epochs that wrote there: no checksum covers that, and one of another
    history may be as long.
    """
    return all(epochs.epoch_at(one.base_offset) in (one.leader_epoch, -1) for one in headers)


async def _one_read(peers: Peers, node: int, partition: int, first: int, stretch: Stretch) -> bytes:
    data = b""
    while True:
        asked = BatchesWanted(partition=partition, first=first, behind=stretch.behind, skip=len(data))
        body = await peers.request(node, READ, msgspec.msgpack.encode(asked), ANSWER_S)
        given = decode(body, BatchesGiven)
        data += given.data
        if len(data) >= given.size or not given.data:
            return data
        if len(data) > stretch.size_bytes:
            return b""  # Whatever it is, there is no room for it.


async def tell(peers: Peers, node: int, partition: int, offset: int) -> None:
    """Let a member know that it has damage here; whether it hears it or not."""
    try:
        await peers.request(
            node, TELL, msgspec.msgpack.encode(DamageReport(partition=partition, offset=offset)), ANSWER_S
        )
    except (OSError, TimeoutError, LonghallError):
        pass  # It finds out when somebody reads there.

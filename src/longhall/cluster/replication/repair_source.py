"""The source of a repair: undamaged batches of one replica, for another replica whose own are damaged.

Every replica serves them, leader or follower, as far as they are committed, and checks each batch before. The replica
that asks checks again: checksums, offsets, and the epoch that wrote them. Segments are the same bytes on all replicas,
unless the cleaner has rewritten one of them: so a range of another size is not the same. A node of an earlier version
answers that it is not ready.
"""

from __future__ import annotations

import enum
from typing import Final, final

import msgspec

from longhall.broker.fetch import read_log
from longhall.broker.hall import Hall
from longhall.broker.partition import Partition
from longhall.cluster.rpc.peers import Audience, Peers
from longhall.cluster.rpc.wire import decode
from longhall.errors import Code, LonghallError
from longhall.log.epochs import Epochs
from longhall.log.segment_repair import Stretch, valid_headers
from longhall.records.batch import BatchHeader

READ: Final = "copies-read"
REPORT: Final = "copies-damaged"
PIECE_BYTES: Final = 4 * 1024 * 1024
ANSWER_S: Final = 5.0
READS_MAX: Final = 4  # Served at the same time.


class BatchesRequest(msgspec.Struct, kw_only=True):
    """A request for the batches of a partition from one offset up to another; the reply begins at the byte `skip`."""

    partition: int
    first: int
    behind: int
    skip: int = 0


class DamageReport(msgspec.Struct, kw_only=True):
    """A replica that copied this partition found it damaged at this offset."""

    partition: int
    offset: int


class BatchesReply(msgspec.Struct, kw_only=True):
    """A piece of the batches that were requested, which have `size` bytes in all."""

    size: int
    data: bytes


class BatchState(enum.Enum):
    """The outcome of a request for batches to one replica, or to all."""

    WHOLE = "whole"
    DAMAGED = "damaged"  # It is damaged there too.
    OTHERWISE = "otherwise"  # These offsets have other bytes there.
    UNKNOWN = "unknown"  # A replica did not answer.


@final
class RepairSource:
    """Serves the batches of one replica to the others."""

    def __init__(self, hall: Hall, peers: Peers) -> None:
        self._hall = hall
        self._reading = 0
        peers.serve(READ, self._read, Audience.MEMBERS)

    async def _read(self, node: int, body: bytes) -> bytes:
        asked = decode(body, BatchesRequest)
        if not 0 <= asked.first < asked.behind or asked.skip < 0:
            raise LonghallError(Code.INVALID_REQUEST, f"there are no offsets from {asked.first} to {asked.behind}")
        partition = self._hall.partitions.get(asked.partition)
        if partition is None or partition.high_watermark < asked.behind:
            raise LonghallError(Code.NOT_READY, f"partition {asked.partition} does not go as far here")
        if self._reading >= READS_MAX:
            raise LonghallError(Code.OVERLOADED, "too many repairs read from this node; try again")
        self._reading += 1
        try:
            data = await read_batches(self._hall, partition, asked.first, asked.behind)
        finally:
            self._reading -= 1
        if asked.skip > len(data):
            raise LonghallError(
                Code.INVALID_REQUEST, f"{len(data)} bytes were found, and those from {asked.skip} asked for"
            )
        return msgspec.msgpack.encode(BatchesReply(size=len(data), data=data[asked.skip : asked.skip + PIECE_BYTES]))


async def read_batches(hall: Hall, partition: Partition, first: int, behind: int) -> bytes:
    """Whole batches from the one that holds `first` on, each checked: at least one, if there is one before `behind`."""
    read = await read_log(hall, partition, first, PIECE_BYTES, behind)
    if read.code is not None:
        raise LonghallError(read.code, f"partition {partition.log.partition} cannot be read at {first}")
    return b"".join(read.buffers)


async def gather(
    peers: Peers, nodes: list[int], partition: int, stretch: Stretch, epochs: Epochs
) -> tuple[BatchState, bytes]:
    """The batches that belong into a damaged stretch, from any replicas that have them, batch by batch if need be."""
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
    """Batches from `first` on, and the offset behind them; or the outcome when every node was asked."""
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
    """True if these batches have the epochs of this log at their offsets. No checksum covers the epoch, and a batch of
    another history may have the same size.
    """
    return all(epochs.epoch_at(one.base_offset) in (one.leader_epoch, -1) for one in headers)


async def _one_read(peers: Peers, node: int, partition: int, first: int, stretch: Stretch) -> bytes:
    data = b""
    while True:
        asked = BatchesRequest(partition=partition, first=first, behind=stretch.behind, skip=len(data))
        body = await peers.request(node, READ, msgspec.msgpack.encode(asked), ANSWER_S)
        given = decode(body, BatchesReply)
        data += given.data
        if len(data) >= given.size or not given.data:
            return data
        if len(data) > stretch.size_bytes:
            return b""  # It does not fit into the stretch.


async def report_damage(peers: Peers, node: int, partition: int, offset: int) -> None:
    """Tell a replica that it has damage here. A report that is lost is not repeated."""
    try:
        await peers.request(
            node, REPORT, msgspec.msgpack.encode(DamageReport(partition=partition, offset=offset)), ANSWER_S
        )
    except (OSError, TimeoutError, LonghallError):
        pass  # The replica finds the damage with the next read there.

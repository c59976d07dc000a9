"""Digests of the state of a hall, by which replicas that have applied the same entries are compared.

The state is digested in slices, so that no digest blocks the loop for long: an object with the number n is in the slice
n % slices; a group or a transactional id is in the slice of its checksum. A slice is digested at a mark in the log
(`StateMarked`), where every replica has applied the same entries.

    table           an object of it                 what is digested
    catalogue       topic, queue, all exchanges     everything
    log             partition                       first and next offset
    batches         partition                       checksums of the batches since the last mark of its slice
    producers       partition                       aborted ranges, and producers that wrote since that mark
    queue           queue                           counts, cursors, outstanding messages and attempts
    offsets         consumer group                  committed offsets
    transactions    transactional id                everything
    moves, uploads, wholes    shard                 everything
    outboxes        target                          everything

Excluded is what does not follow from the log: segment boundaries, expired entries, the rows and deadlines of leases
(they end without an event), and idle producers, which the leader drops by its clock. Batches and producers of a
partition are known from its first mark in this process on; replicas that know different partitions do not compare these
two tables (`differs`).
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from typing import Any, Final

import msgspec
from crc32c import crc32c

from longhall.broker.events import StateMarked
from longhall.broker.hall import Hall
from longhall.broker.partition import Partition
from longhall.broker.queue_catalogue import QueueEntry
from longhall.broker.queues.running_queue import RunningQueue
from longhall.queues.leases import FREE
from longhall.queues.settings import QueueSettings

OBJECTS_MAX: Final = 512  # In one slice: a few milliseconds. Partitions and queues count twice.
SLICES_MAX: Final = 4096
SPARSE: Final = 8  # Numbers for each partition that exists.

CATALOGUE: Final = "catalogue"
LOG: Final = "log"
BATCHES: Final = "batches"
PRODUCERS: Final = "producers"
QUEUE: Final = "queue"
OFFSETS: Final = "offsets"
TRANSACTIONS: Final = "transactions"
MOVES: Final = "moves"
UPLOADS: Final = "uploads"
WHOLES: Final = "wholes"
OUTBOXES: Final = "outboxes"

PARTIAL: Final = frozenset({BATCHES, PRODUCERS})  # Tables of which a replica may know only some objects.
PRODUCER_EXPIRY_MS_MIN: Final = 4 * 60 * 60 * 1000  # Where producers are forgotten sooner, they are not compared.

Tables = dict[str, dict[str, int]]  # By table the digest of each object.
Digests = dict[str, tuple[int, int]]  # By table: a digest of the covered objects, where they vary, and the digest.

# The format of the digests. Replicas with different formats do not compare.
FORM: Final = crc32c(repr((1, QueueSettings.__struct_fields__)).encode())

_encoder = msgspec.msgpack.Encoder(order="sorted")


def slices_of(hall: Hall) -> int:
    """The number of slices for a state of this size."""
    groups = sum(len(groups) for groups in hall.groups)
    transactions = sum(len(transactions) for transactions in hall.transactions)
    objects = 2 * (len(hall.partitions) + len(hall.queues)) + groups + transactions
    return min(1 + objects // OBJECTS_MAX, SLICES_MAX)


def digest_slice(hall: Hall, mark: StateMarked) -> Tables:
    """The digests of one slice when its mark is applied. The next digests of its batches begin here."""
    partitions = [(_name(one), one) for one in _partitions_of(hall, mark)]
    queues = [queue for number, queue in hall.queues.items() if number % mark.slices == mark.slice]
    shards = [at for at in range(len(hall.shards) - 1) if at % mark.slices == mark.slice]
    tables: Tables = {
        CATALOGUE: _catalogue_of(hall, mark, partitions, queues),
        LOG: _digests((name, (one.log.start_offset, one.log.next_offset)) for name, one in partitions),
        BATCHES: _batches_of(partitions),
        PRODUCERS: _producers_of(hall, partitions),
        QUEUE: _digests((queue.entry.name, queue_rows(queue)) for queue in queues),
        OFFSETS: _offsets_of(hall, mark),
        TRANSACTIONS: _transactions_of(hall, mark),
        MOVES: _digests((str(at), hall.redrives[at].snapshot()) for at in shards),
        UPLOADS: _digests((str(at), hall.uploads[at].snapshot()) for at in shards),
        WHOLES: _digests((str(at), hall.chunked_messages[at].snapshot()) for at in shards),
        OUTBOXES: _digests(
            (outbox.target, outbox.row())
            for stream, outbox in hall.outboxes.by_stream.items()
            if stream % mark.slices == mark.slice
        ),
    }
    for _, partition in partitions:
        partition.log.mark()
    return tables


def pass_mark(hall: Hall, mark: StateMarked) -> None:
    """Apply a mark without digests: the next digests of its batches begin here."""
    for partition in _partitions_of(hall, mark):
        partition.log.mark()


def fold(tables: Tables) -> Digests:
    """One digest for each table."""
    folded: Digests = {}
    for table, objects in tables.items():
        covers = crc32c(_encoder.encode(sorted(objects))) if table in PARTIAL else 0
        folded[table] = (covers, crc32c(_encoder.encode(sorted(objects.items()))))
    return folded


def differs(here: Digests, there: Digests) -> list[str]:
    """The tables in which two replicas differ at the same mark. Tables with different coverage are skipped."""
    return [
        table
        for table, (covers, digest) in here.items()
        if table in there and there[table][0] == covers and there[table][1] != digest
    ]


def differing(here: dict[str, int], there: dict[str, int]) -> list[str]:
    """The objects of a table in which two replicas differ."""
    return sorted(name for name in here.keys() | there.keys() if here.get(name) != there.get(name))


def queue_rows(queue: RunningQueue) -> tuple[object, ...]:
    """The part of a queue's state that follows from the log."""
    state = queue.queue.state
    leases = state.leases
    outstanding = sorted(
        [
            (leases.lane[row], leases.offset[row], leases.attempts[row], leases.number[row])
            for row, held in enumerate(leases.state)
            if held != FREE
        ]
    )
    scans = sorted([(lane.cursor.lane, lane.cursor.scan) for lane in state.lanes.values()])
    deaths = sorted(state.deaths.items())
    rows: tuple[object, ...] = (
        state.paused,
        state.messages,
        state.purged_ms,
        state.next_number,
        deaths,
        scans,
        outstanding,
    )
    if holds := state.holds.snapshot():
        rows = (*rows, holds)
    return (*rows, sorted(queue.arrivals.items())) if queue.arrivals else rows


def offset_rows(table: list[Any]) -> list[Any]:
    """The committed offsets of a group's snapshot, sorted."""
    return sorted(table[1], key=_place_of)


def _place_of(row: list[Any]) -> tuple[str, int]:
    return (row[0], row[1])


def _partitions_of(hall: Hall, mark: StateMarked) -> list[Partition]:
    """The partitions of a slice: by number if the numbers are dense, else by a scan."""
    partitions, first, behind = hall.partitions, hall.options.first_partition, hall.catalogue.next_partition
    if behind - first > SPARSE * len(partitions):
        return [partition for number, partition in partitions.items() if number % mark.slices == mark.slice]
    numbers = range(first + (mark.slice - first) % mark.slices, behind, mark.slices)
    return [partitions[number] for number in numbers if number in partitions]


def _name(partition: Partition) -> str:
    return f"{partition.topic}-{partition.number} ({partition.log.partition})"


def _digests(rows: Iterable[tuple[str, object]]) -> dict[str, int]:
    return {name: crc32c(_encoder.encode(row)) for name, row in rows}


def _catalogue_of(
    hall: Hall, mark: StateMarked, partitions: list[tuple[str, Partition]], queues: list[RunningQueue]
) -> dict[str, int]:
    """A topic is in the slice of its first partition."""
    catalogue = hall.catalogue
    first = [one.topic_id for _, one in partitions if one.number == 0 and one.topic_id in catalogue.by_id]
    firsts = [catalogue.by_id[topic_id] for topic_id in first]
    found = _digests((f"topic {topic.name}", catalogue.row_of(topic)) for topic in firsts)
    found.update(_digests((f"queue {queue.entry.name}", _declared(queue.entry)) for queue in queues))
    if mark.slice == 0:
        numbers = (catalogue.next_partition, catalogue.producer_ids_below, sorted(catalogue.parts.items()))
        found.update(_digests([("numbers", numbers)]))
        rows = catalogue.exchanges.rows()
        if rows:
            found.update(_digests([("exchanges", rows)]))
        if catalogue.brokers:
            brokers = sorted((broker, sorted(values.items())) for broker, values in catalogue.brokers.items())
            found.update(_digests([("brokers", brokers)]))
        if catalogue.directory.version:
            found.update(_digests([("directory", (catalogue.directory.version, catalogue.directory.rows()))]))
    return found


def _declared(entry: QueueEntry) -> tuple[object, ...]:
    numbers = (entry.number, entry.owns_topic, entry.created_ms, entry.modified_ms)
    row = (entry.name, entry.queue_id, entry.topic_id, numbers, entry.settings, sorted(entry.lanes.items()))
    if entry.has_moved:
        return (*row, sorted(entry.starts.items()), sorted(entry.numbers.items()), sorted(entry.copies.items()))
    return (*row, sorted(entry.starts.items())) if entry.starts else row


def _batches_of(partitions: list[tuple[str, Partition]]) -> dict[str, int]:
    return _digests(
        (name, (one.log.marked_offset, one.log.next_offset, one.log.chain))
        for name, one in partitions
        if one.log.marked_offset >= 0
    )


def _producers_of(hall: Hall, partitions: list[tuple[str, Partition]]) -> dict[str, int]:
    if hall.options.producer_expiry_ms < PRODUCER_EXPIRY_MS_MIN:
        return {}
    return _digests((name, _written_by(one)) for name, one in partitions if one.log.marked_offset >= 0)


def _written_by(partition: Partition) -> tuple[object, object]:
    table, marked = partition.producers, partition.log.marked_offset
    if table is None:
        return ([], [])
    return (table.rows_since(marked), [one for one in table.aborted_ranges() if one[2] >= marked])


def _offsets_of(hall: Hall, mark: StateMarked) -> dict[str, int]:
    found: dict[str, int] = {}
    for groups in hall.groups:
        names = [name for name in groups.written() if zlib.crc32(name.encode()) % mark.slices == mark.slice]
        found.update(_digests((name, offset_rows(groups.offsets_of(name))) for name in names))
    return found


def _transactions_of(hall: Hall, mark: StateMarked) -> dict[str, int]:
    found: dict[str, int] = {}
    for transactions in hall.transactions:
        names = [name for name in transactions.names() if zlib.crc32(name.encode()) % mark.slices == mark.slice]
        found.update(_digests((name, transactions.row_of(name)) for name in names))
    return found

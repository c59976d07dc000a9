"""Send: append a batch of messages to a partition.

    check      the batch is complete, its checksum is right, and it meets the topic's settings
    decide     the producer's sequence and transaction allow it
    append     to the write-ahead log, or to its segment with a reference in the log
    apply      the partition's tables are updated, for the next decision
    release    the caller waits on the shard for the acknowledgements of the topic's setting, or on the write

Batches are not opened: their records stay as the producer encoded and compressed them. Only a queue may want to see the
records first: a batch for the partition of a queue goes through `Hall.queue_appender`, which applies the queue's rules.
"""

from __future__ import annotations

from typing import Final

from longhall.broker.configuration import ALWAYS, AS_PRODUCED, TopicOptions
from longhall.broker.hall import EVENT_ROOM_BYTES, Hall
from longhall.broker.partition import Partition
from longhall.broker.produced import TIMEOUT_MS, ProducedBatch, Sent
from longhall.broker.transaction_check import check_transaction
from longhall.errors import Code, LonghallError
from longhall.log.frames import ENTRY_BYTES_MAX
from longhall.log.partition import PartitionLog
from longhall.records.batch import (
    HEADER_BYTES,
    BatchHeader,
    build_batch,
    check_batch,
    check_produced,
    parse_header,
    read_records,
    stored_prefix,
    validate_records,
    with_log_append_time,
)
from longhall.records.seal import SEAL_BYTES, TAG_BYTES
from longhall.shards.shard import ONE, Committable
from longhall.topics.producers import Duplicate

DIRECT_BYTES_MIN: Final = 64 * 1024  # From this size on, a sync of the segment is cheaper than a copy in the log.
# Every segment with direct appends costs a round one sync, and a copy in the write-ahead log is often cheaper: beyond
# the first two segments only very large batches are written directly, and beyond the eighth none.
DIRECT_FILES_MIN: Final = 2
DIRECT_FILES_MAX: Final = 8
DIRECT_BYTES_MANY: Final = 512 * 1024
DIRECT_TAILS_MAX: Final = 32  # With more active partitions, a sync of one segment may wait for the data of all.
ENTRY_SLACK_BYTES: Final = 4096
ONE_ENTRY_BYTES_MAX: Final = ENTRY_BYTES_MAX - ENTRY_SLACK_BYTES
PARTS_LEVEL: Final = 2  # From this feature level on a batch may span several entries,
PARTS_BYTES_MAX: Final = 64 * 1024 * 1024  # up to this size.
RECORD_ERRORS_MAX: Final = 1_000  # Messages of a refused batch that are named one by one; the batch fails as a whole.
SEALED_BATCH_BYTES: Final = SEAL_BYTES + TAG_BYTES  # That sealing adds to a batch.
_PREFIX_BYTES: Final = 16


def send(
    hall: Hall,
    partition: Partition,
    frame: bytes,
    at: int,
    size_bytes: int,
    transactional_id: str | None = None,
    joins_transaction: bool = False,
    connection: int = 0,
    leader_only: bool = False,
    timeout_ms: int = TIMEOUT_MS,
    is_sealed: bool = False,
) -> Sent:
    """Append the one batch in `frame[at:at + size_bytes]`. An accepted batch is not committed yet: see `wait`.

    A transactional batch requires that its partition is part of the producer's transaction; `joins_transaction` adds
    the partition. A producer without an id is identified by its `connection`, and waits `timeout_ms` for the answer. A
    producer that is content with the leader's copy (`leader_only`) may send while too few replicas are in sync.
    `is_sealed` says that the batch was sealed on its way here; a sealed topic takes no other.
    """
    if partition.elsewhere:
        return Sent(Code.NOT_LEADER)
    options = partition.options
    now_ms = hall.time.now_ms()
    try:
        header = check_batch(frame, at, at + size_bytes)
        if header.size_bytes != size_bytes:
            return Sent(Code.INVALID_REQUEST, message="a request must have exactly one batch for a partition")
        check_produced(header)
        if is_sealed != options.is_sealed or (header.is_sealed and not is_sealed):
            return _refuse_seal(options)
        added_bytes = SEALED_BATCH_BYTES if header.is_sealed else 0  # Not by its producer.
        if header.size_bytes - added_bytes > options.message_bytes_max:
            return Sent(Code.MESSAGE_TOO_LARGE, message="the batch is larger than max.message.bytes")
        refused = _check_time(frame, at, header, options, now_ms)
        if refused is not None:
            return refused
        if options.compacts:
            validate_records(frame, at, keys_required=True)
        append_time_ms = -1
        if options.log_append_time or options.compression != AS_PRODUCED:
            frame = _rewrite(frame[at : at + size_bytes], header, options, now_ms)
            at = 0
            if options.log_append_time:
                append_time_ms = now_ms
            header = parse_header(frame, 0)
    except LonghallError as error:
        named = _name_keyless(frame, at, str(error)) if error.code is Code.KEY_REQUIRED else None
        return Sent(error.code, message=str(error), record_errors=named)
    batch = ProducedBatch(
        partition,
        header,
        frame,
        at,
        transactional_id,
        joins_transaction,
        connection,
        timeout_ms,
        append_time_ms,
        leader_only,
    )
    if header.is_transactional:
        held = hall.transaction_verifier.hold(batch)
        if held is not None:
            return held
    return admit(hall, batch, now_ms)


def admit(hall: Hall, batch: ProducedBatch, now_ms: int) -> Sent:
    """Append a batch that meets the settings of its topic, if its producer and the rules of its queue allow it."""
    if batch.partition.has_rules:
        return hall.queue_appender.send_by_rules(batch)
    refused = check_producer(hall, batch, now_ms)
    return refused if refused is not None else append_produced(hall, batch, now_ms)


def check_producer(hall: Hall, batch: ProducedBatch, now_ms: int) -> Sent | None:
    """None if the batch may be appended; else the answer to a repeated one, or the error."""
    header, partition = batch.header, batch.partition
    if header.producer_id < 0:
        return None
    decided = partition.table().decide(header)
    if isinstance(decided, Duplicate):
        return Sent(None, decided.base_offset, batch.append_time_ms)
    if decided is Code.OUT_OF_ORDER_SEQUENCE:
        # If the batches before it were refused, the sequence error would make the producer begin a new epoch and
        # resend batches that are in the log.
        number = partition.log.partition
        code = _refusal_of_all(hall, partition.options, batch.leader_only) or hall.refused.lately(
            number, header.producer_id, now_ms
        )
        if code is not None:
            return Sent(code)
    if decided is None and header.is_transactional and partition.table().needs_verification(header):
        if batch.guard < 0 or batch.guard != partition.table().verification_guard(header.producer_id):
            decided = check_transaction(hall, partition, header, batch.transactional_id, batch.joins_transaction)
    return Sent(decided) if decided is not None else None


def append_produced(hall: Hall, batch: ProducedBatch, now_ms: int) -> Sent:
    """Append a batch whose producer was checked, and count it."""
    header, partition = batch.header, batch.partition
    if partition.parted:
        hall.queue_appender.partition_chosen(
            partition, header.producer_id if header.producer_id >= 0 else -1 - batch.connection
        )
    code = append(hall, partition, header, batch.frame, batch.at, now_ms, leader_only=batch.leader_only)
    if code is not None:
        if header.producer_id >= 0:
            hall.refused.note(partition.log.partition, header.producer_id, code, now_ms)
        return Sent(code)
    traffic = partition.traffic
    traffic.messages_in += header.record_count
    traffic.bytes_in += header.size_bytes
    quota = partition.options.quota
    if quota is not None:
        quota.charge(header.size_bytes, header.record_count, now_ms)
    for listener in partition.listeners:
        listener.on_sent(header.record_count)
    meter = hall.usage.meter
    if meter is not None:
        meter.sent_by(batch.account, hall.topic_name(partition.topic_id), header.record_count, header.size_bytes)
    return Sent(None, header.base_offset, batch.append_time_ms)


def append(
    hall: Hall,
    partition: Partition,
    header: BatchHeader,
    frame: bytes,
    at: int,
    now_ms: int,
    message: bool = True,
    leader_only: bool = False,
) -> Code | None:
    """Append and apply a checked batch. Markers (`message` False) may use the reserved space."""
    if partition.elsewhere:
        return Code.NOT_LEADER
    if partition.has_priority_lanes:
        return hall.queue_appender.append_with_copies(partition, header, frame, at, now_ms, message)
    return append_here(hall, partition, header, frame, at, now_ms, message, leader_only)


def append_here(
    hall: Hall,
    partition: Partition,
    header: BatchHeader,
    frame: bytes,
    at: int,
    now_ms: int,
    message: bool,
    leader_only: bool = False,
) -> Code | None:
    """Append to this partition alone, without copies for priorities."""
    size = header.size_bytes
    # Queues and followers need the batch in the log.
    whole = size >= DIRECT_BYTES_MIN and (partition.wants_bodies or hall.replica is not None)
    if size > ONE_ENTRY_BYTES_MAX and whole and not _goes_in_parts(hall, size):
        return Code.MESSAGE_TOO_LARGE
    options = partition.options
    if message:
        if hall.refusal is not None or options.in_sync_min:
            refusal = hall.refusal_for(options.in_sync_min, leader_only or options.acknowledge == ONE)
            if refusal is not None:
                return refusal
        if hall.is_backed_up:
            hall.backlog.refusals += 1
            return Code.COMMIT_BACKLOG
        if hall.space_bytes < size:
            hall.storage_full = True
        if hall.storage_full or not hall.has_room(size + EVENT_ROOM_BYTES):
            return Code.STORAGE_FULL
        hall.space_bytes -= size  # A fast producer could use up the reserve between two checks.
    header.base_offset = partition.log.next_offset
    header.leader_epoch = partition.epoch
    try:
        direct = (size > ONE_ENTRY_BYTES_MAX and not whole) or (
            size >= DIRECT_BYTES_MIN and not whole and _goes_direct(hall, partition.log, header, now_ms)
        )
        if direct:
            return _append_direct(hall, partition, header, frame, at, now_ms)
        return _append_entry(hall, partition, header, frame, at, now_ms)
    except OSError as error:
        return hall.refuse_storage(error)


def _append_entry(
    hall: Hall, partition: Partition, header: BatchHeader, frame: bytes, at: int, now_ms: int
) -> Code | None:
    """Append the batch to the write-ahead log. On OSError nothing has changed."""
    size = header.size_bytes
    prefix = stored_prefix(header.base_offset, size, header.leader_epoch)
    stored = b"".join((prefix, memoryview(frame)[at + _PREFIX_BYTES : at + size]))
    flags = partition.log.append(header, stored, now_ms)
    try:
        if size > ONE_ENTRY_BYTES_MAX:
            partition.shard.append_batch_in_parts(partition.log.partition, flags, stored)
        else:
            partition.shard.append_batch(partition.log.partition, flags, stored)
        hall.note_tail(partition, size)
        _apply(hall, partition, header, stored, now_ms)
    except LonghallError:  # This node has lost leadership, and its hall is about to be discarded.
        raise
    except Exception as error:
        hall.halt(error)
        raise
    return None


def _append_direct(
    hall: Hall, partition: Partition, header: BatchHeader, frame: bytes, at: int, now_ms: int
) -> Code | None:
    """Write the batch to its segment, with a reference in the write-ahead log. On OSError nothing has changed."""
    log = partition.log
    size = header.size_bytes
    prefix = stored_prefix(header.base_offset, size, header.leader_epoch)
    tail_before = log.tail_bytes
    try:
        rest = memoryview(frame)[at + _PREFIX_BYTES : at + size]
        flags, position, file = log.append_direct(header, prefix, rest, now_ms)
    finally:
        hall.tail_bytes -= tail_before - log.tail_bytes
    try:
        hall.journal.touch_file(file)
        hall.referenced_bytes += size
        stored = prefix + frame[at + _PREFIX_BYTES : at + HEADER_BYTES]
        partition.shard.append_reference(log.partition, flags, position, stored)
        _apply(hall, partition, header, stored, now_ms)
    except Exception as error:
        hall.halt(error)
        raise
    return None


def _apply(hall: Hall, partition: Partition, header: BatchHeader, stored: bytes, now_ms: int) -> None:
    partition.fold(header, stored, now_ms)
    always = partition.options.durability == ALWAYS
    hall.journal.touch(partition.shard, always)
    if always:
        partition.shard.wait(partition, header.next_offset)
    else:
        hall.journal.wait_written(partition, header.next_offset)
    hall.commits.kick()


def wait(hall: Hall, partition: Partition, target: Committable, value: int, *, leader_only: bool = False) -> None:
    """Call `target.committed(value)` when all sends to this partition so far have the durability of its topic.

    With `leader_only` the leader's copy suffices, regardless of the topic's setting.
    """
    if partition.options.durability == ALWAYS:
        partition.shard.wait_for(ONE if leader_only else partition.options.acknowledge, target, value)
    else:
        hall.journal.wait_written(target, value)
        hall.commits.kick()


def _refusal_of_all(hall: Hall, options: TopicOptions, leader_only: bool) -> Code | None:
    """The error for all messages of a topic now; None if messages are accepted."""
    refusal = hall.refusal_for(options.in_sync_min, leader_only or options.acknowledge == ONE)
    if refusal is not None:
        return refusal
    if hall.is_backed_up:
        return Code.COMMIT_BACKLOG
    return Code.STORAGE_FULL if hall.storage_full else None


def _goes_in_parts(hall: Hall, size: int) -> bool:
    """True if a batch may span several entries; never inside an atomic write."""
    return hall.feature_level >= PARTS_LEVEL and size <= PARTS_BYTES_MAX and not hall.wal.is_held


def _goes_direct(hall: Hall, log: PartitionLog, header: BatchHeader, now_ms: int) -> bool:
    """True if a large batch should be written to its segment instead of the write-ahead log."""
    files = hall.journal.file_count
    if files >= DIRECT_FILES_MAX or (files >= DIRECT_FILES_MIN and header.size_bytes < DIRECT_BYTES_MANY):
        return False
    if len(hall.tails) > DIRECT_TAILS_MAX:
        return False
    if log.takes_direct(header, now_ms):
        return True
    for observer in hall.observers:
        observer.names_unsynced()
    return False


def _refuse_seal(options: TopicOptions) -> Sent:
    """A batch in clear for a sealed topic, or a batch with a seal that this process did not write."""
    if options.is_sealed:
        return Sent(Code.SEALED, message="the topic is sealed, and the batch was not sealed on its way")
    return Sent(Code.INVALID_REQUEST, message="the batch has an attribute that producers must not set")


def _check_time(frame: bytes, at: int, header: BatchHeader, options: TopicOptions, now_ms: int) -> Sent | None:
    if options.log_append_time:
        return None
    newest_ms = now_ms + options.timestamp_after_max_ms
    oldest_ms = now_ms - options.timestamp_before_max_ms
    if header.max_timestamp_ms > newest_ms:
        message = "a timestamp is too far in the future"
    elif 0 <= header.base_timestamp_ms < oldest_ms:
        message = "a timestamp is too far in the past"
    else:
        return None
    named: list[tuple[int, str]] = []
    records = [] if header.is_sealed else read_records(frame, at)
    for index, record in enumerate(records):
        if record.timestamp_ms > newest_ms or 0 <= record.timestamp_ms < oldest_ms:
            named.append((index, f"timestamp {record.timestamp_ms} is not between {oldest_ms} and {newest_ms}"))
            if len(named) == RECORD_ERRORS_MAX:
                break
    return Sent(Code.INVALID_TIMESTAMP, message=message, record_errors=named)


def _name_keyless(frame: bytes, at: int, reason: str) -> list[tuple[int, str]]:
    """The messages of a batch that have no key."""
    named = [(index, reason) for index, record in enumerate(read_records(frame, at)) if record.key is None]
    return named[:RECORD_ERRORS_MAX]


def _rewrite(batch: bytes, header: BatchHeader, options: TopicOptions, now_ms: int) -> bytes:
    """The batch with the topic's timestamps or compression."""
    if options.compression not in (AS_PRODUCED, header.compression):
        batch = build_batch(
            read_records(batch, 0),
            base_offset=header.base_offset,
            producer_id=header.producer_id,
            producer_epoch=header.producer_epoch,
            base_sequence=header.base_sequence,
            compression=options.compression,
            compression_level=options.compression_level,
            transactional=header.is_transactional,
        )
    return with_log_append_time(batch, now_ms) if options.log_append_time else batch

"""The seal of a record or of a whole batch: its layout, and what it is bound to. No key and no cipher is here.

    0         1                17             21                      37          45
    +---------+----------------+--------------+-----------------------+-----------+
    | version | topic id       | data key     | prefix of the process | counter   |
    | = 1  u8 |       16 bytes | number   u32 | that sealed  16 bytes |       u64 |
    +---------+----------------+--------------+-----------------------+-----------+

A sealed message has these bytes in the header `longhall.seal` of its record, and ciphertext with a tag of 16 bytes as
its value. A sealed batch has the bit SEALED in its attributes; its records section is the seal and the ciphertext of
the producer's records section, compressed as the producer compressed it. Offsets, count, times, producer and sequence
stay in the header of the batch, and the CRC is that of the ciphertext, so the log, replicas and the scrubber need no
key. What opens a seal must check it against the bytes of `message_binding` or `batch_binding`: a record that was
swapped with another one, moved to another topic or partition, or cut does not fit them.
"""

from __future__ import annotations

import struct
from typing import Final, final

from longhall.errors import Code, LonghallError
from longhall.records.batch import assemble
from longhall.records.header import (
    CRC_COVERS_FROM,
    DELETE_HORIZON,
    HEADER_BYTES,
    LOG_APPEND_TIME,
    SEALED,
    BatchHeader,
)

VERSION: Final = 1
TOPIC_ID_BYTES: Final = 16
PREFIX_BYTES: Final = 16
TAG_BYTES: Final = 16
SEAL_BYTES: Final = 45
NUMBER_MAX: Final = 0xFFFFFFFF
COUNTER_MAX: Final = (1 << 64) - 1

_SEAL: Final = struct.Struct(">B16sI16sQ")
_BATCH_BINDING: Final = struct.Struct(">ihiqqhii")
_COVERED: Final = struct.Struct(">hiqqqhii")
_SET_BY_THE_BROKER: Final = LOG_APPEND_TIME | DELETE_HORIZON
_OF_MESSAGES: Final = b"longhall message"
_OF_BATCHES: Final = b"longhall batch"


@final
class Seal:
    """Which data key of which topic sealed something, and the nonce: no two seals have the same prefix and counter."""

    def __init__(self, topic_id: bytes, key_number: int, prefix: bytes, counter: int) -> None:
        self.topic_id = topic_id
        self.key_number = key_number
        self.prefix = prefix
        self.counter = counter

    def encode(self) -> bytes:
        """The 45 bytes of the layout above."""
        return _SEAL.pack(VERSION, self.topic_id, self.key_number, self.prefix, self.counter)


def parse_seal(raw: bytes) -> Seal:
    """Read a seal. SEAL_BROKEN for bytes that are none; UNSUPPORTED_FORMAT for one of a newer version."""
    if len(raw) != SEAL_BYTES:
        raise LonghallError(Code.SEAL_BROKEN, "a seal is truncated")
    version, topic_id, number, prefix, counter = _SEAL.unpack(raw)
    if version != VERSION:
        raise LonghallError(Code.UNSUPPORTED_FORMAT, f"a seal has version {version}, which is newer than this node")
    return Seal(topic_id, number, prefix, counter)


def message_binding(seal: bytes, message_id: str) -> bytes:
    """What a sealed message is bound to, beside its own bytes: topic, key, nonce and message id."""
    return _OF_MESSAGES + seal + message_id.encode()


def batch_binding(seal: bytes, partition: int, header: BatchHeader) -> bytes:
    """The same for a batch: topic, key, nonce, partition, and what its producer wrote into the header.

    Base offset and leader epoch are missing because the leader sets them after the batch is sealed; so is the newest
    time, which the leader may replace.
    """
    return (
        _OF_BATCHES
        + seal
        + _BATCH_BINDING.pack(
            partition,
            (header.attributes | SEALED) & ~_SET_BY_THE_BROKER,
            header.last_offset_delta,
            header.base_timestamp_ms,
            header.producer_id,
            header.producer_epoch,
            header.base_sequence,
            header.record_count,
        )
    )


def sealed_batch(header: BatchHeader, seal: bytes, ciphertext: bytes) -> bytes:
    """The stored form of a batch whose records section is this ciphertext."""
    return _with_records(header, header.attributes | SEALED, seal + ciphertext)


def seal_of_batch(batch: bytes, header: BatchHeader) -> bytes:
    """The seal of a sealed batch. SEAL_BROKEN if there is no room for one."""
    if header.size_bytes < HEADER_BYTES + SEAL_BYTES + TAG_BYTES or header.size_bytes > len(batch):
        raise LonghallError(Code.SEAL_BROKEN, "a sealed batch is truncated")
    return batch[HEADER_BYTES : HEADER_BYTES + SEAL_BYTES]


def opened_batch(header: BatchHeader, records: bytes) -> bytes:
    """The wire form of a sealed batch, with its records section as the producer wrote it."""
    return _with_records(header, header.attributes & ~SEALED, records)


def _with_records(header: BatchHeader, attributes: int, records: bytes) -> bytes:
    covered = _COVERED.pack(
        attributes,
        header.last_offset_delta,
        header.base_timestamp_ms,
        header.max_timestamp_ms,
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
        header.record_count,
    )
    assert CRC_COVERS_FROM + len(covered) == HEADER_BYTES
    return assemble(header.base_offset, header.leader_epoch, covered, records)

"""Sealing and opening of Kafka batches: whole ones of topics, and record by record where the topic is a queue's own.

    topic            sealed                                    readable in the log
    of a queue       the value of each record, by itself       keys, headers, times, sizes of records
    any other        the records section of each batch         count, offsets, producer, sequence, time range, size

A queue needs single records, because the broker delivers them to other doors. Batches of a topic are also checked for
repetition: seals of one process count up along the offsets of a partition, so a batch that was copied to another place
of its own partition is refused by a reader that has read both places. Transactional batches are exempt from that: they
may wait for the coordinator, and be appended in another order.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, final

from longhall.errors import LonghallError
from longhall.front.sealing.cipher import DataCipher, broken
from longhall.front.sealing.messages import MessageSealer, content_identity, decrypt, of_another_queue
from longhall.front.sealing.seal_order import SealOrder
from longhall.log.segment_rewrite import rebuild_batch
from longhall.queues.envelope import (
    DEDUPLICATION_ID,
    ID,
    RANDOM_BYTES,
    SEAL,
    new_message_id,
    seal_of,
    without_seal,
)
from longhall.records.batch import HEADER_BYTES, build_batch, check_batch, parse_header, read_records
from longhall.records.header import BatchHeader
from longhall.records.record import Record
from longhall.records.seal import (
    SEAL_BYTES,
    Seal,
    batch_binding,
    opened_batch,
    parse_seal,
    seal_of_batch,
    sealed_batch,
)

SLICE: Final = 64  # Batches that are opened before other requests have their turn.


@final
class BatchSealer:
    """Seals and opens batches for the Kafka door."""

    def __init__(self, sealer: MessageSealer, randomness: Callable[[int], bytes]) -> None:
        self.keys = sealer.keys
        self._sealer = sealer
        self._randomness = randomness
        self._order = SealOrder()

    # Sealing

    def seal_batch(self, cipher: DataCipher, partition: int, frame: bytes, at: int, size_bytes: int) -> bytes:
        """A batch of a producer with its records sealed as a whole. CORRUPT_MESSAGE if it is none."""
        header = check_batch(frame, at, at + size_bytes)
        if header.is_sealed or header.size_bytes != size_bytes:
            return frame[at : at + size_bytes]  # The broker refuses it, with the reason.
        seal, aes, nonce = cipher.seal(self._sealer.nonces)
        records = memoryview(frame)[at + HEADER_BYTES : at + size_bytes]
        return sealed_batch(header, seal, aes.encrypt(nonce, records, batch_binding(seal, partition, header)))

    def seal_records(
        self, cipher: DataCipher, digests: DataCipher | None, frame: bytes, at: int, size_bytes: int
    ) -> bytes:
        """A batch of a producer with each value sealed. With `digests`, the queue deduplicates by content."""
        header = check_batch(frame, at, at + size_bytes)
        if header.is_sealed or header.size_bytes != size_bytes:
            return frame[at : at + size_bytes]
        records = [self._sealed(cipher, digests, record) for record in read_records(frame, at)]
        return build_batch(
            records,
            base_offset=header.base_offset,
            producer_id=header.producer_id,
            producer_epoch=header.producer_epoch,
            base_sequence=header.base_sequence,
            transactional=header.is_transactional,
            max_timestamp_ms=header.max_timestamp_ms,
        )

    def _sealed(self, cipher: DataCipher, digests: DataCipher | None, record: Record) -> Record:
        """A record with its value sealed. The producer's own `longhall.id` and `longhall.seal` do not count."""
        message_id = new_message_id(self._randomness(RANDOM_BYTES))
        body = record.value or b""
        seal, value = self._sealer.encrypt(cipher, body, message_id)
        headers: list[tuple[str, bytes | None]] = [(ID, message_id.encode()), (SEAL, seal)]
        given = ""
        for header in record.headers:
            if header[0] == DEDUPLICATION_ID and digests is not None:
                given = (header[1] or b"").decode(errors="replace")
            elif header[0] not in (ID, SEAL):
                headers.append(header)
        if digests is not None:
            headers.append((DEDUPLICATION_ID, content_identity(digests, given, body).encode()))
        return Record(record.offset, record.timestamp_ms, record.key, value, tuple(headers))

    # Opening

    async def open_all(self, topic: str, partition: int, data: bytes) -> list[bytes]:
        """These batches of a partition in clear, up to the first that does not open; its error if it is the first."""
        topic_id = await self.keys.topic_id_of(topic)
        opened: list[bytes] = []
        at = 0
        while at < len(data):
            header = parse_header(data, at)
            batch = data[at : at + header.size_bytes]
            at += header.size_bytes
            try:
                opened.append(await self._open(topic_id, partition, header, batch))
            except LonghallError:
                if not opened:
                    raise
                break
            if len(opened) % SLICE == 0:
                await asyncio.sleep(0)
        return opened

    async def _open(self, topic_id: bytes, partition: int, header: BatchHeader, batch: bytes) -> bytes:
        if header.is_control or header.record_count == 0:
            return batch
        if header.is_sealed:
            return await self._open_batch(topic_id, partition, header, batch)
        return await self._open_records(topic_id, header, batch)

    async def _open_batch(self, topic_id: bytes, partition: int, header: BatchHeader, batch: bytes) -> bytes:
        raw = seal_of_batch(batch, header)
        seal = parse_seal(raw)
        if seal.topic_id != topic_id:
            raise broken("a sealed batch is in a topic for which it was not sealed")
        cipher = await self._cipher(seal)
        ciphertext = batch[HEADER_BYTES + SEAL_BYTES : header.size_bytes]
        records = cipher.open(seal, ciphertext, batch_binding(raw, partition, header))
        if not header.is_transactional:
            self._order.check(topic_id, partition, seal, header.base_offset)
        return opened_batch(header, records)

    async def _open_records(self, topic_id: bytes, header: BatchHeader, batch: bytes) -> bytes:
        records = read_records(batch, 0)
        if not any(seal_of(record) for record in records):
            return batch
        opened = [await self.open_record(topic_id, record) for record in records]
        horizon_ms = header.base_timestamp_ms if header.has_delete_horizon else -1
        return rebuild_batch(header, opened, header.compression, horizon_ms)

    async def open_record(self, topic_id: bytes, record: Record) -> Record:
        """A record of a queue in clear, as its producer or another door sent it."""
        raw = seal_of(record)
        if not raw:
            return record
        seal = parse_seal(raw)
        message_id, is_dead_letter, headers = without_seal(record.headers)
        if seal.topic_id != topic_id and not is_dead_letter:
            raise of_another_queue()
        body = decrypt(await self._cipher(seal), seal, raw, record.value or b"", message_id)
        return Record(record.offset, record.timestamp_ms, record.key, body, headers)

    async def _cipher(self, seal: Seal) -> DataCipher:
        cipher = self.keys.opening(seal.topic_id, seal.key_number)
        return cipher or await self.keys.fetch_opening(seal.topic_id, seal.key_number)

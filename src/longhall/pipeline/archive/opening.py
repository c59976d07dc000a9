"""Sealed pieces of an archive, opened: with master keys on the driver, and data keys in the tasks.

    driver   unwraps the data keys of the manifests, with the master keys of the file that `--keys` names
    task     opens rows: messages of sealed queues, and sealed batches of topics, which become many rows

What opens a row checks what its seal is bound to, as brokers do: files that were altered are refused. Data keys in
clear are in the tasks of Spark, which sends them over its own connections; they are written nowhere.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, final

import pyarrow as pa

from longhall.broker.seal_keys import decode_keys
from longhall.errors import LonghallError
from longhall.front.keys.master_keys import MasterKeys
from longhall.front.sealing.cipher import DataCipher, broken
from longhall.front.sealing.seal_order import SealOrder
from longhall.pipeline.archive.manifest import ArchiveManifest, Piece
from longhall.pipeline.archive.manifest_log import ManifestLog, archived_topics
from longhall.pipeline.archive.parquet import COLUMNS, SCHEMA, has_seals, read_piece, sealed_rows
from longhall.pipeline.archive.storage import Storage
from longhall.pipeline.arrow_table import Shape
from longhall.pipeline.batch_decoder import PartitionDecoder
from longhall.pipeline.refusals import PipelineError
from longhall.queues.envelope import SEAL, without_seal
from longhall.records.header import HEADER_BYTES, parse_header
from longhall.records.seal import (
    SEAL_BYTES,
    TAG_BYTES,
    Seal,
    batch_binding,
    message_binding,
    opened_batch,
    parse_seal,
    seal_of_batch,
)

KeyId = tuple[bytes, int]  # The id of a topic, and the number of one of its data keys.


class ArchiveKeys(NamedTuple):
    """Data keys in clear, and why others are not to be had. It can be pickled, and does not print its keys."""

    clear: dict[KeyId, bytes]
    refused: dict[KeyId, str]

    def __repr__(self) -> str:
        return f"ArchiveKeys({len(self.clear)} keys)"

    def cipher(self, key: KeyId) -> DataCipher:
        """Raises PipelineError."""
        if key not in self.clear:
            why = self.refused.get(key, "the archive has no such key; archive the queue that sealed it beside it")
            raise PipelineError(f"data key {key[1]} of topic {key[0].hex()} is not to be had: {why}")
        return DataCipher(*key, self.clear[key])


def unwrap_keys(masters: MasterKeys, url: str) -> ArchiveKeys:
    """The data keys of all topics of an archive. A key that is not to be had fails those who need it."""
    storage = Storage(url)
    rings = [ManifestLog(storage, topic).latest() for topic in archived_topics(storage)]
    work = _unwrap(masters, [each for each in rings if each is not None])
    with ThreadPoolExecutor(1) as thread:  # The caller may have a running loop, as in a notebook.
        return thread.submit(asyncio.run, work).result()


async def _unwrap(masters: MasterKeys, manifests: list[ArchiveManifest]) -> ArchiveKeys:
    keys = ArchiveKeys({}, {})
    for manifest in manifests:
        topic_id = bytes.fromhex(manifest.topic_id)
        for key in decode_keys(manifest.seal_keys)[1]:
            context = {"longhall-topic": manifest.topic_id, "longhall-key": str(key.number)}
            try:
                keys.clear[topic_id, key.number] = await masters.unwrap(key.master, key.wrapped, context)
            except LonghallError as failure:
                keys.refused[topic_id, key.number] = str(failure)
    return keys


def check_readable(manifest: ArchiveManifest, keys: ArchiveKeys | None) -> None:
    """Raises PipelineError if an archive has ciphertext and no keys were given."""
    if keys is None and any(piece.sealed for pieces in manifest.partitions.values() for piece in pieces):
        raise PipelineError(f"{manifest.topic} is archived as ciphertext; name the file of its master keys with --keys")


class PieceReader(NamedTuple):
    """The messages of one partition of an archive, in clear. It can be pickled."""

    url: str
    topic: str
    topic_id: bytes
    partition: int
    keys: ArchiveKeys | None = None

    def read(self, piece: Piece) -> Iterator[Any]:
        """Record batches of the columns of archives. Raises PipelineError."""
        rows = read_piece(Storage(self.url), piece)
        if not piece.sealed:
            yield from rows
            return
        assert self.keys is not None, "the driver checks that keys were given"
        opener = RowOpener(self, self.keys, piece)
        try:
            for batch in rows:
                yield from opener.open(batch)
        except LonghallError as failure:
            if isinstance(failure, PipelineError):
                raise
            raise PipelineError(f"{piece.path}: {failure}") from failure


@final
class RowOpener:
    """Opens the rows of one piece."""

    def __init__(self, reader: PieceReader, keys: ArchiveKeys, piece: Piece) -> None:
        self._reader = reader
        self._keys = keys
        self._piece = piece
        self._ciphers: dict[KeyId, DataCipher] = {}
        self._order = SealOrder()

    def open(self, batch: Any) -> Iterator[Any]:
        """The messages of rows, in order."""
        at = 0
        for number in sealed_rows(batch):
            if number > at:
                yield self._opened_rows(batch.slice(at, number - at))
            yield from self._opened_batch(batch.column(4)[number].as_py())
            at = number + 1
        if at < batch.num_rows:
            yield self._opened_rows(batch.slice(at))

    def _opened_batch(self, batch: bytes) -> Iterator[Any]:
        reader, piece = self._reader, self._piece
        header = parse_header(batch, 0)
        raw = seal_of_batch(batch, header)
        seal = parse_seal(raw)
        if seal.topic_id != reader.topic_id:
            raise broken("a sealed batch is in the archive of a topic for which it was not sealed")
        ciphertext = batch[HEADER_BYTES + SEAL_BYTES : header.size_bytes]
        records = self._cipher(seal).open(seal, ciphertext, batch_binding(raw, reader.partition, header))
        if not header.is_transactional:
            self._order.check(seal.topic_id, reader.partition, seal, header.base_offset)
        shape = Shape(COLUMNS, reader.topic, reader.partition)
        yield from PartitionDecoder(shape, piece.base, piece.end).open(opened_batch(header, records), [])

    def _opened_rows(self, batch: Any) -> Any:
        """Rows of messages. Those of sealed queues are opened one by one."""
        if not has_seals(batch):
            return batch
        values, headers = batch.column(4).to_pylist(), batch.column(5).to_pylist()
        for number, listed in enumerate(headers):
            raw = next((each["value"] for each in listed or () if each["key"] == SEAL), None)
            if raw:
                pairs = tuple((each["key"], each["value"]) for each in listed)
                values[number], kept = self._opened_message(raw, values[number] or b"", pairs)
                headers[number] = [{"key": name, "value": value} for name, value in kept] or None
        opened = [*batch.columns[:4], pa.array(values, pa.binary()), pa.array(headers, SCHEMA.field("headers").type)]
        return pa.RecordBatch.from_arrays(opened, schema=SCHEMA)

    def _opened_message(
        self, raw: bytes, body: bytes, pairs: tuple[tuple[str, bytes | None], ...]
    ) -> tuple[bytes, tuple[tuple[str, bytes | None], ...]]:
        seal = parse_seal(raw)
        message_id, is_dead_letter, kept = without_seal(pairs)
        if seal.topic_id != self._reader.topic_id and not is_dead_letter:
            raise broken("a sealed message is in the archive of a queue for which it was not sealed")
        if len(body) < TAG_BYTES:
            raise broken("a sealed message was cut")
        return self._cipher(seal).open(seal, body, message_binding(raw, message_id)), kept

    def _cipher(self, seal: Seal) -> DataCipher:
        key = (seal.topic_id, seal.key_number)
        cipher = self._ciphers.get(key)
        if cipher is None:
            cipher = self._ciphers[key] = self._keys.cipher(key)
        return cipher

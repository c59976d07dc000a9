"""Batches are exchanged with the record code of two clients, in all compression codecs."""

from __future__ import annotations

from typing import Any

import pytest
from aiokafka.record.default_records import DefaultRecordBatch as AiokafkaBatch
from aiokafka.record.default_records import DefaultRecordBatchBuilder as AiokafkaBuilder
from hypothesis import given, settings
from kafka.record.default_records import DefaultRecordBatch as KafkaBatch
from kafka.record.default_records import DefaultRecordBatchBuilder as KafkaBuilder

from longhall.records.batch import Record, build_batch, check_batch, check_produced, read_records
from tests.examples import examples
from tests.records.strategies import CODECS, plain, records

SENT = [
    *plain(20),
    Record(20, 1_700_000_000_500, None, b"no key"),
    Record(21, 1_600_000_000_000, b"tombstone", None, (("a", None), ("a", b""), ("\u00fc", b"\x00\xff"))),
    Record(22, 1_700_000_000_000, b"", b""),
    Record(23, 1_700_000_000_000, None, None),
    Record(24, 1_700_000_000_000, b"big", b"0123456789" * 20_000),
]


def built_by(builder_class: Any, sent: list[Record], codec: int) -> bytes:
    builder = builder_class(
        magic=2, compression_type=codec, is_transactional=1, producer_id=5, producer_epoch=1, base_sequence=10,
        batch_size=10_000_000,
    )  # fmt: skip
    for delta, record in enumerate(sent):
        assert builder.append(delta, record.timestamp_ms, record.key, record.value, list(record.headers)) is not None
    return bytes(builder.build())


def read_by(batch_class: Any, batch: bytes) -> list[Record]:
    parsed = batch_class(bytearray(batch))
    assert parsed.validate_crc()
    return [Record(r.offset, r.timestamp, r.key, r.value, tuple((n, v) for n, v in r.headers)) for r in parsed]


@pytest.mark.parametrize("codec", range(5))
@pytest.mark.parametrize("builder_class", [KafkaBuilder, AiokafkaBuilder], ids=["kafka-python", "aiokafka"])
def test_we_read_batches_of_clients(builder_class: Any, codec: int) -> None:
    batch = built_by(builder_class, SENT, codec)
    header = check_batch(batch, 0, len(batch))
    check_produced(header)
    assert header.compression == codec
    assert header.is_transactional
    assert (header.producer_id, header.producer_epoch, header.base_sequence, header.last_sequence) == (5, 1, 10, 34)
    assert header.max_timestamp_ms == 1_700_000_000_500
    assert read_records(batch, 0) == SENT


@pytest.mark.parametrize("codec", range(5))
@pytest.mark.parametrize("batch_class", [KafkaBatch, AiokafkaBatch], ids=["kafka-python", "aiokafka"])
def test_clients_read_our_batches(batch_class: Any, codec: int) -> None:
    batch = build_batch([Record(r.offset + 100, r.timestamp_ms, r.key, r.value, r.headers) for r in SENT],
                        base_offset=100, compression=codec)  # fmt: skip
    assert [
        Record(r.offset - 100, r.timestamp_ms, r.key, r.value, r.headers) for r in read_by(batch_class, batch)
    ] == SENT


@given(records(), CODECS)
@settings(max_examples=examples(50))
def test_clients_read_any_of_our_records(sent: list[Record], codec: int) -> None:
    batch = build_batch(sent, compression=codec)
    assert read_by(KafkaBatch, batch) == sent == read_by(AiokafkaBatch, batch)


def test_clients_read_no_record_from_an_emptied_batch() -> None:
    batch = build_batch([], base_offset=3, last_offset=9, max_timestamp_ms=5)
    assert read_by(KafkaBatch, batch) == []

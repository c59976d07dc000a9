"""Options of writing: what is understood, and one line for each misuse."""

from __future__ import annotations

import pytest

from longhall.pipeline.refusals import PipelineError
from longhall.pipeline.sink_options import AT_LEAST_ONCE, EXACTLY_ONCE, SinkOptions, read_sink_options
from longhall.records.compression import ZSTD

BOOTSTRAP = {"kafka.bootstrap.servers": "127.0.0.1:9092"}


def read(streaming: bool = False, overwrite: bool = False, **given: str) -> SinkOptions:
    named = {name.replace("__", "."): value for name, value in given.items()}
    return read_sink_options({**BOOTSTRAP, **named}, streaming=streaming, overwrite=overwrite)


def test_options_of_the_kafka_sink_are_accepted() -> None:
    got = read(topic="orders", kafka__compression__type="zstd", kafka__acks="all", kafka__linger__ms="5")
    assert (got.topic, got.compression, got.delivery, got.sink) == ("orders", ZSTD, EXACTLY_ONCE, "")


def test_option_names_are_case_insensitive() -> None:
    got = read(TOPIC="orders", TransactionalID="daily", BATCHID="4", Delivery="AT-LEAST-ONCE", keeptimestamps="true")
    assert got == SinkOptions("127.0.0.1:9092", "orders", 0, True, AT_LEAST_ONCE, "daily", 4)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"topic": "no/name"}, "no name of a topic"),
        ({"kafka__compression__type": "rar"}, "none, gzip, snappy, lz4, zstd"),
        ({"delivery": "twice"}, "exactly-once or at-least-once"),
        ({"kafka__key__serializer": "x"}, "kafka.key.serializer is not supported"),
        ({"kafka__value__serializer": "x"}, "kafka.value.serializer is not supported"),
        ({"kafka__transactional__id": "x"}, "the option transactionalId names it"),
        ({"transactionalId": "a b"}, "letters, digits"),
        ({"transactionalId": "x" * 240}, "letters, digits"),
        ({"batchId": "1"}, "needs transactionalId"),
        ({"transactionalId": "x", "batchId": "-1"}, "whole number from 0 on"),
        ({"keepTimestamps": "yes"}, "true or false"),
    ],
)
def test_a_wrong_option_is_refused_in_one_line(given: dict[str, str], words: str) -> None:
    named = {name.replace("__", "."): value for name, value in given.items()}
    with pytest.raises(PipelineError, match=words) as refused:
        read_sink_options({**BOOTSTRAP, **named}, streaming=False, overwrite=False)
    assert "\n" not in str(refused.value)


def test_options_of_batches_only_and_streams_only() -> None:
    with pytest.raises(PipelineError, match="append"):
        read(overwrite=True)
    with pytest.raises(PipelineError, match="a stream numbers its batches itself"):
        read(streaming=True, transactionalId="x", batchId="1")
    with pytest.raises(PipelineError, match=r"kafka\.bootstrap\.servers is missing"):
        read_sink_options({"topic": "t"}, streaming=False, overwrite=False)

"""Readers of topics with a filter that the server applies, given in `client.rack`, which every client sends."""

from __future__ import annotations

import subprocess
import sys

import pytest
from confluent_kafka import KafkaError, TopicPartition

from soak.node import Node
from tests.clients.conftest import COMPRESSIONS, FreshName, MakeTopic
from tests.clients.librdkafka import new_consumer, new_producer, read
from tests.left_out import leave_out

FILTER = "longhall.filter=city = 'Oslo'"


@pytest.fixture(autouse=True)
def ours(node: Node | None) -> None:
    if node is None:
        leave_out("LONGHALL_TEST_BOOTSTRAP names a broker, and only Longhall sifts")


def _fill(bootstrap: str, topic: str, count: int, every: int, compression: str = "none") -> list[bytes]:
    producer = new_producer(bootstrap, compression_type=compression, linger_ms=20)
    wanted: list[bytes] = []
    for number in range(count):
        value = b"%06d" % number + b"x" * 300
        fits = number % every == every - 1
        producer.produce(topic, value, headers=[("city", b"Oslo" if fits else b"Rome")], partition=0)
        if fits:
            wanted.append(value)
    assert producer.flush(30) == 0
    return wanted


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_only_what_fits_comes_with_its_offset(
    bootstrap: str, make_topic: MakeTopic, fresh_name: FreshName, compression: str
) -> None:
    topic = make_topic(1)
    wanted = _fill(bootstrap, topic, 3000, 100, compression)
    consumer = new_consumer(bootstrap, fresh_name("group"), client_rack=FILTER)
    consumer.assign([TopicPartition(topic, 0, 0)])
    got = read(consumer, len(wanted))
    assert [message.value() for message in got] == wanted
    assert [message.offset() for message in got] == list(range(99, 3000, 100))
    assert consumer.poll(1.0) is None
    consumer.close()


def test_a_long_range_without_a_match_is_skipped(bootstrap: str, make_topic: MakeTopic, fresh_name: FreshName) -> None:
    topic = make_topic(1)
    _fill(bootstrap, topic, 8000, 100_000)  # Many answers without a message.
    wanted = _fill(bootstrap, topic, 1, 1)
    consumer = new_consumer(bootstrap, fresh_name("group"), client_rack=FILTER)
    consumer.assign([TopicPartition(topic, 0, 0)])
    assert [message.value() for message in read(consumer, 1)] == wanted
    # Later messages are filtered too.
    _fill(bootstrap, topic, 10, 100)
    later = _fill(bootstrap, topic, 1, 1)
    assert [message.value() for message in read(consumer, 1)] == later
    consumer.close()


def test_a_group_continues_behind_its_committed_offset(
    bootstrap: str, make_topic: MakeTopic, fresh_name: FreshName
) -> None:
    topic, group = make_topic(1), fresh_name("group")
    wanted = _fill(bootstrap, topic, 50, 10)
    for expected in (wanted[:2], wanted[2:]):
        consumer = new_consumer(bootstrap, group, client_rack=FILTER)
        consumer.subscribe([topic])
        got = read(consumer, len(expected))
        assert [message.value() for message in got][: len(expected)] == expected
        consumer.commit(message=got[-1], asynchronous=False)
        consumer.close()


def test_an_invalid_filter_is_refused_and_any_other_rack_is_a_rack(
    bootstrap: str, make_topic: MakeTopic, fresh_name: FreshName
) -> None:
    topic = make_topic(1)
    _fill(bootstrap, topic, 5, 10)
    consumer = new_consumer(bootstrap, fresh_name("group"), client_rack="longhall.filter=city =")
    consumer.assign([TopicPartition(topic, 0, 0)])
    message = consumer.poll(10)
    assert message is not None
    assert message.error().code() == KafkaError.INVALID_REQUEST
    consumer.close()
    consumer = new_consumer(bootstrap, fresh_name("group"), client_rack="city = 'Oslo'")
    consumer.assign([TopicPartition(topic, 0, 0)])
    assert len(read(consumer, 5)) == 5
    consumer.close()


def test_the_command_line_filters_too(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic(1)
    wanted = _fill(bootstrap, topic, 40, 10)
    command = [sys.executable, "-m", "longhall.cli", "consume", topic, "--address", bootstrap]
    found = subprocess.run([*command, "--filter", "city = 'Oslo'"], capture_output=True, timeout=60)
    assert (found.returncode, found.stdout.split()) == (0, wanted)
    found = subprocess.run([*command, "--filter", "city = 'Oslo'", "-n", "2"], capture_output=True, timeout=60)
    assert found.stdout.split() == wanted[:2]
    refused = subprocess.run([*command, "--filter", "city ="], capture_output=True, timeout=60)
    assert refused.returncode == 2
    assert b"selector" in refused.stderr

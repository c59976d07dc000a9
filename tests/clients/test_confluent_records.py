"""confluent-kafka: records are read back unchanged, in every shape, size and compression."""

from __future__ import annotations

import pytest
from confluent_kafka import TIMESTAMP_CREATE_TIME, TIMESTAMP_LOG_APPEND_TIME, TopicPartition

from tests.clients.conftest import COMPRESSIONS, FreshName, MakeTopic
from tests.clients.librdkafka import new_consumer, new_producer, read, read_all, send, send_refused

MEGABYTE = 1 << 20


def test_a_record_keeps_all_its_parts(bootstrap: str, topic: str) -> None:
    headers = [("trace", b"abc"), ("trace", b"again"), ("empty", b""), ("none", None), ("bytes", bytes(range(256)))]
    producer = new_producer(bootstrap)
    send(producer, topic, ["välue"], key="kéy", headers=headers, timestamp=1_700_000_000_123)
    send(producer, topic, [None], key=b"tombstone")
    send(producer, topic, [b""], key=b"")
    send(producer, topic, [None])

    first, tombstone, empty, nothing = read_all(bootstrap, topic)
    assert (first.key(), first.value()) == ("kéy".encode(), "välue".encode())
    assert first.headers() == headers
    assert first.timestamp() == (TIMESTAMP_CREATE_TIME, 1_700_000_000_123)
    assert (tombstone.key(), tombstone.value()) == (b"tombstone", None)
    assert (empty.key(), empty.value()) == (b"", b"")
    assert (nothing.key(), nothing.value()) == (None, None)
    assert [m.offset() for m in (first, tombstone, empty, nothing)] == [0, 1, 2, 3]


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_every_compression(bootstrap: str, topic: str, compression: str) -> None:
    values = [f"{number}:".encode() + b"longhall " * 50 for number in range(300)]
    delivered = send(new_producer(bootstrap, compression_type=compression, linger_ms=20), topic, values, key=b"k")
    assert [m.offset() for m in delivered] == list(range(300))
    assert [m.value() for m in read_all(bootstrap, topic)] == values


def test_compressions_mix_in_one_partition(bootstrap: str, topic: str) -> None:
    for compression in COMPRESSIONS:
        send(new_producer(bootstrap, compression_type=compression), topic, [compression * 20] * 3)
    assert [m.value().decode() for m in read_all(bootstrap, topic)] == [c * 20 for c in COMPRESSIONS for _ in range(3)]


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_every_kind_of_acknowledgement(bootstrap: str, topic: str, acks: str) -> None:
    producer = new_producer(bootstrap, acks=acks)
    send(producer, topic, [b"one", b"two", b"three"])
    with_group = new_consumer(bootstrap, f"{topic}-readers")
    with_group.assign([TopicPartition(topic, 0, 0)])
    assert [m.value() for m in read(with_group, 3)] == [b"one", b"two", b"three"]
    with_group.close()


def test_the_broker_stamps_where_the_topic_says_so(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic(config={"message.timestamp.type": "LogAppendTime"})
    send(new_producer(bootstrap), topic, [b"x"], timestamp=1_000)
    (message,) = read_all(bootstrap, topic)
    kind, at_ms = message.timestamp()
    assert kind == TIMESTAMP_LOG_APPEND_TIME
    assert at_ms > 1_600_000_000_000


def test_a_big_record_passes(bootstrap: str, topic: str) -> None:
    value = bytes(range(256)) * (900 * 4)
    assert len(value) == 900 * 1024
    send(new_producer(bootstrap), topic, [value])
    (message,) = read_all(bootstrap, topic)
    assert message.value() == value


def test_too_big_a_record_is_refused_and_the_connection_lives_on(bootstrap: str, topic: str) -> None:
    producer = new_producer(bootstrap, message_max_bytes=8 * MEGABYTE)
    error = send_refused(producer, topic, b"x" * (2 * MEGABYTE))
    assert error.name() == "MSG_SIZE_TOO_LARGE"
    send(producer, topic, [b"small"])
    assert [m.value() for m in read_all(bootstrap, topic)] == [b"small"]


def test_a_topic_sets_its_own_limit(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic(config={"max.message.bytes": "1000"})
    producer = new_producer(bootstrap)
    assert send_refused(producer, topic, b"x" * 2000).name() == "MSG_SIZE_TOO_LARGE"
    send(producer, topic, [b"x" * 500])


def test_fetch_limits_slow_a_reader_down_but_never_stop_it(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic(partitions=3)
    producer = new_producer(bootstrap)
    for partition in range(3):
        for number in range(4):
            send(producer, topic, [bytes([partition, number]) * 50_000], partition=partition)
    small = {"fetch_message_max_bytes": 1000, "fetch_max_bytes": 1000, "message_max_bytes": 1000}
    got = read_all(bootstrap, topic, 3, **small)
    for partition in range(3):
        assert [m.value()[:2] for m in got if m.partition() == partition] == [bytes([partition, n]) for n in range(4)]


def test_a_waiting_reader_wakes_on_the_first_record(bootstrap: str, topic: str) -> None:
    """The reader asks to wait longer than the test is willing to; only a wake-up can bring the record in time."""
    reader = new_consumer(bootstrap, f"{topic}-waiting", fetch_wait_max_ms=40_000, fetch_min_bytes=1)
    reader.assign([TopicPartition(topic, 0, 0)])
    assert reader.poll(1.0) is None
    producer = new_producer(bootstrap)
    for number in range(5):
        send(producer, topic, [f"{number}"])
        (message,) = read(reader, 1, seconds_max=20)
        assert message.value() == f"{number}".encode()
    reader.close()


def test_many_batches_in_flight_keep_their_order(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic(partitions=3)
    producer = new_producer(bootstrap, enable_idempotence=True, batch_num_messages=10, linger_ms=0)
    for number in range(3000):
        producer.produce(topic, str(number), partition=number % 3)
        producer.poll(0)
    assert producer.flush(30) == 0
    got = read_all(bootstrap, topic, 3)
    for partition in range(3):
        numbers = [int(m.value()) for m in got if m.partition() == partition]
        assert numbers == list(range(partition, 3000, 3))


def test_an_unknown_partition_is_an_error(bootstrap: str, topic: str) -> None:
    error = send_refused(new_producer(bootstrap, message_timeout_ms=5000), topic, b"x", partition=7)
    assert error.name() == "_UNKNOWN_PARTITION"


def test_topics_are_made_on_first_use(bootstrap: str, fresh_name: FreshName) -> None:
    name = fresh_name("made-by-use")
    send(new_producer(bootstrap), name, [b"hello"])
    assert [m.value() for m in read_all(bootstrap, name)] == [b"hello"]


def test_a_consumer_that_may_not_make_topics_gets_an_error(bootstrap: str, fresh_name: FreshName) -> None:
    name = fresh_name("nobody-made-this")
    consumer = new_consumer(bootstrap, f"{name}-readers", allow_auto_create_topics=False)
    consumer.subscribe([name])
    error = None
    for _ in range(30):
        message = consumer.poll(1.0)
        if message is not None:
            error = message.error()
            break
    assert error is not None
    assert error.name() == "UNKNOWN_TOPIC_OR_PART"
    assert name not in consumer.list_topics(timeout=10).topics
    consumer.close()


def test_offsets_by_place_and_by_time(bootstrap: str, topic: str) -> None:
    producer = new_producer(bootstrap)
    for number in range(10):
        send(producer, topic, [str(number)], timestamp=1_700_000_000_000 + number * 1000)
    consumer = new_consumer(bootstrap, f"{topic}-readers")
    here = TopicPartition(topic, 0)
    assert consumer.get_watermark_offsets(here, timeout=10) == (0, 10)

    def offset_at(at_ms: int) -> int:
        return int(consumer.offsets_for_times([TopicPartition(topic, 0, at_ms)], timeout=10)[0].offset)

    assert offset_at(0) == 0
    assert offset_at(1_700_000_004_000) == 4
    assert offset_at(1_700_000_004_001) == 5
    assert offset_at(1_700_000_099_000) == -1  # librdkafka's word for "the end".

    consumer.assign([TopicPartition(topic, 0, 7)])
    assert [m.offset() for m in read(consumer, 3)] == [7, 8, 9]
    consumer.seek(TopicPartition(topic, 0, 2))
    assert [m.offset() for m in read(consumer, 2)] == [2, 3]
    consumer.close()


def test_reading_past_the_end_starts_again_where_the_reader_said(bootstrap: str, topic: str) -> None:
    send(new_producer(bootstrap), topic, [b"a", b"b"])
    consumer = new_consumer(bootstrap, f"{topic}-lost", auto_offset_reset="earliest")
    consumer.assign([TopicPartition(topic, 0, 1000)])
    assert [m.value() for m in read(consumer, 2)] == [b"a", b"b"]
    consumer.close()

    strict = new_consumer(bootstrap, f"{topic}-strict", auto_offset_reset="error")
    strict.assign([TopicPartition(topic, 0, 1000)])
    message = next(m for m in (strict.poll(1.0) for _ in range(30)) if m is not None)
    assert message.error().name() in {"_AUTO_OFFSET_RESET", "OFFSET_OUT_OF_RANGE"}
    strict.close()

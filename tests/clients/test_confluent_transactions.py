"""confluent-kafka: transactions are atomic, whichever process dies, and a fenced producer writes nothing afterwards."""

from __future__ import annotations

import time

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from tests.clients.conftest import WAIT_SECONDS, FreshName, MakeTopic
from tests.clients.librdkafka import PROTOCOLS, new_consumer, new_producer, read, read_all, send


def transactional(bootstrap: str, name: str, **settings: object) -> Producer:
    producer = new_producer(bootstrap, transactional_id=name, **settings)
    producer.init_transactions(WAIT_SECONDS)
    return producer


def values(bootstrap: str, topic: str, isolation: str = "read_committed", partitions: int = 1) -> list[str]:
    return [m.value().decode() for m in read_all(bootstrap, topic, partitions, isolation_level=isolation)]


def test_an_idempotent_producer_writes_everything_once(bootstrap: str, topic: str) -> None:
    producer = new_producer(bootstrap, enable_idempotence=True, batch_num_messages=5)
    send(producer, topic, [str(n) for n in range(500)])
    assert values(bootstrap, topic) == [str(n) for n in range(500)]


def test_committed_is_seen_and_aborted_is_not(bootstrap: str, make_topic: MakeTopic, fresh_name: FreshName) -> None:
    topic = make_topic(partitions=2)
    producer = transactional(bootstrap, fresh_name("txn"))
    for word, commit in (("first", True), ("second", False), ("third", True)):
        producer.begin_transaction()
        for partition in range(2):
            producer.produce(topic, f"{word}-{partition}", partition=partition)
        if commit:
            producer.commit_transaction(WAIT_SECONDS)
        else:
            producer.flush(WAIT_SECONDS)
            producer.abort_transaction(WAIT_SECONDS)
    assert sorted(values(bootstrap, topic, partitions=2)) == ["first-0", "first-1", "third-0", "third-1"]
    everything = values(bootstrap, topic, "read_uncommitted", partitions=2)
    assert sorted(everything) == sorted(f"{w}-{p}" for w in ("first", "second", "third") for p in range(2))


def test_an_open_transaction_hides_later_messages(bootstrap: str, topic: str, fresh_name: FreshName) -> None:
    """A read-committed reader stands before an open transaction; it goes on at once when that ends."""
    producer = transactional(bootstrap, fresh_name("txn"))
    plain = new_producer(bootstrap)
    send(plain, topic, ["before"])
    producer.begin_transaction()
    producer.produce(topic, "inside")
    producer.flush(WAIT_SECONDS)
    send(plain, topic, ["after"])
    assert values(bootstrap, topic) == ["before"]
    assert values(bootstrap, topic, "read_uncommitted") == ["before", "inside", "after"]

    reader = new_consumer(bootstrap, f"{topic}-r", isolation_level="read_committed", fetch_wait_max_ms=40_000)
    reader.assign([TopicPartition(topic, 0, 0)])
    assert [m.value() for m in read(reader, 1)] == [b"before"]
    producer.commit_transaction(WAIT_SECONDS)
    assert [m.value() for m in read(reader, 2, seconds_max=20)] == [b"inside", b"after"]
    reader.close()


def test_end_offsets_depend_on_the_isolation(bootstrap: str, topic: str, fresh_name: FreshName) -> None:
    producer = transactional(bootstrap, fresh_name("txn"))
    producer.begin_transaction()
    producer.produce(topic, "inside")
    producer.flush(WAIT_SECONDS)
    for isolation, end in (("read_committed", 0), ("read_uncommitted", 1)):
        consumer = new_consumer(bootstrap, f"{topic}-r", isolation_level=isolation)
        assert consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=10) == (0, end)
        consumer.close()
    producer.abort_transaction(WAIT_SECONDS)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_consume_transform_produce(bootstrap: str, make_topic: MakeTopic, fresh_name: FreshName, protocol: str) -> None:
    """The offsets move with the output: an aborted round is read again, a committed one is not."""
    source, target, group = make_topic(), make_topic(), fresh_name("group")
    send(new_producer(bootstrap), source, ["a", "b", "c", "d"])
    producer = transactional(bootstrap, fresh_name("txn"))

    def round_of_two(commit: bool) -> list[str]:
        consumer = new_consumer(bootstrap, group, isolation_level="read_committed", group_protocol=protocol)
        consumer.subscribe([source])
        messages = read(consumer, 2)
        producer.begin_transaction()
        for message in messages:
            producer.produce(target, message.value().upper())
        ahead = [TopicPartition(source, 0, messages[-1].offset() + 1)]
        producer.send_offsets_to_transaction(ahead, consumer.consumer_group_metadata(), WAIT_SECONDS)
        if commit:
            producer.commit_transaction(WAIT_SECONDS)
        else:
            producer.abort_transaction(WAIT_SECONDS)
        consumer.close()
        return [m.value().decode() for m in messages]

    assert round_of_two(commit=False) == ["a", "b"]
    assert round_of_two(commit=True) == ["a", "b"]
    assert round_of_two(commit=True) == ["c", "d"]
    assert values(bootstrap, target) == ["A", "B", "C", "D"]


def test_a_newer_producer_fences_the_older(bootstrap: str, topic: str, fresh_name: FreshName) -> None:
    name = fresh_name("txn")
    zombie = transactional(bootstrap, name)
    zombie.begin_transaction()
    zombie.produce(topic, "from the dead")
    zombie.flush(WAIT_SECONDS)
    newer = transactional(bootstrap, name)  # This aborts what the zombie had open.

    with pytest.raises(KafkaException) as refused:
        zombie.produce(topic, "still dead")
        zombie.commit_transaction(WAIT_SECONDS)
    assert refused.value.args[0].name() in {"_FENCED", "PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH"}
    assert refused.value.args[0].fatal()

    newer.begin_transaction()
    newer.produce(topic, "alive")
    newer.commit_transaction(WAIT_SECONDS)
    assert values(bootstrap, topic) == ["alive"]


def test_a_hung_transaction_is_aborted_after_its_timeout(bootstrap: str, topic: str, fresh_name: FreshName) -> None:
    hung = transactional(bootstrap, fresh_name("txn"), transaction_timeout_ms=1000)
    hung.begin_transaction()
    hung.produce(topic, "never committed")
    hung.flush(WAIT_SECONDS)
    send(new_producer(bootstrap), topic, ["waits behind it"])
    assert values(bootstrap, topic) == []
    assert _wait_for(bootstrap, topic) == ["waits behind it"]
    with pytest.raises(KafkaException):
        hung.commit_transaction(WAIT_SECONDS)
    assert values(bootstrap, topic) == ["waits behind it"]


def _wait_for(bootstrap: str, topic: str) -> list[str]:
    deadline = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < deadline:
        got = values(bootstrap, topic)
        if got:
            return got
    raise AssertionError("the hung transaction still stands in the way")


def test_a_transaction_over_many_partitions_and_topics(
    bootstrap: str, make_topic: MakeTopic, fresh_name: FreshName
) -> None:
    topics = [make_topic(partitions=3) for _ in range(3)]
    producer = transactional(bootstrap, fresh_name("txn"))
    for commit in (False, True):
        producer.begin_transaction()
        for topic in topics:
            for number in range(30):
                producer.produce(topic, f"{commit}-{number}", partition=number % 3)
        producer.flush(WAIT_SECONDS)
        if commit:
            producer.commit_transaction(WAIT_SECONDS)
        else:
            producer.abort_transaction(WAIT_SECONDS)
    for topic in topics:
        assert sorted(values(bootstrap, topic, partitions=3)) == sorted(f"True-{n}" for n in range(30))


def test_an_empty_transaction_leaves_no_trace(bootstrap: str, topic: str, fresh_name: FreshName) -> None:
    producer = transactional(bootstrap, fresh_name("txn"))
    for _ in range(3):
        producer.begin_transaction()
        producer.commit_transaction(WAIT_SECONDS)
    producer.begin_transaction()
    producer.abort_transaction(WAIT_SECONDS)
    assert values(bootstrap, topic, "read_uncommitted") == []


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_offsets_of_an_open_transaction_wait(
    bootstrap: str, make_topic: MakeTopic, fresh_name: FreshName, protocol: str
) -> None:
    """Until the transaction ends, the group's committed offset is what it was before."""
    topic, group = make_topic(), fresh_name("group")
    send(new_producer(bootstrap), topic, ["a", "b", "c"])
    consumer = new_consumer(bootstrap, group, group_protocol=protocol)
    consumer.subscribe([topic])
    first = read(consumer, 1)
    consumer.commit(message=first[0], asynchronous=False)
    producer = transactional(bootstrap, fresh_name("txn"))
    producer.begin_transaction()
    producer.send_offsets_to_transaction(
        [TopicPartition(topic, 0, 3)], consumer.consumer_group_metadata(), WAIT_SECONDS
    )
    producer.abort_transaction(WAIT_SECONDS)
    assert committed(consumer, topic) == 1
    producer.begin_transaction()
    producer.send_offsets_to_transaction(
        [TopicPartition(topic, 0, 2)], consumer.consumer_group_metadata(), WAIT_SECONDS
    )
    producer.commit_transaction(WAIT_SECONDS)
    assert committed(consumer, topic) == 2
    consumer.close()


def committed(consumer: Consumer, topic: str) -> int:
    (position,) = consumer.committed([TopicPartition(topic, 0)], timeout=WAIT_SECONDS)
    return int(position.offset)

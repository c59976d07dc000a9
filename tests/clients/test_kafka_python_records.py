"""kafka-python: records, offsets and groups, in the newest encodings that it knows."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from kafka.errors import MessageSizeTooLargeError
from kafka.structs import OffsetAndMetadata

from tests.clients.conftest import COMPRESSIONS, SESSION_MS, WAIT_SECONDS, FreshName, MakeTopic, eventually

NewClient = Callable[..., Any]


@pytest.fixture
def new_producer(bootstrap: str) -> Iterator[NewClient]:
    made: list[KafkaProducer] = []

    def make(**settings: Any) -> KafkaProducer:
        made.append(KafkaProducer(bootstrap_servers=bootstrap, **settings))
        return made[-1]

    yield make
    for producer in made:
        producer.close(timeout=5)


@pytest.fixture
def new_consumer(bootstrap: str) -> Iterator[NewClient]:
    made: list[KafkaConsumer] = []

    def make(*topics: str, **settings: Any) -> KafkaConsumer:
        made.append(subscribed(bootstrap, *topics, **settings))
        return made[-1]

    yield make
    for consumer in made:
        consumer.close(autocommit=False)


def subscribed(bootstrap: str, *topics: str, **settings: Any) -> KafkaConsumer:
    usual = {
        "auto_offset_reset": "earliest",
        "enable_auto_commit": False,
        "session_timeout_ms": SESSION_MS,
        "heartbeat_interval_ms": 300,
    }
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, **{**usual, **settings})
    # Subscribed at once, this client may lead its group before it knows the topic, and then assigns nothing for long.
    for topic in topics:
        assert consumer.partitions_for_topic(topic)
    if topics:
        consumer.subscribe(topics)
    return consumer


def read(consumer: KafkaConsumer, count: int) -> list[Any]:
    got: list[Any] = []
    deadline = time.monotonic() + WAIT_SECONDS
    while len(got) < count:
        assert time.monotonic() < deadline, f"only {len(got)} of {count} records came"
        for records in consumer.poll(timeout_ms=500).values():
            got.extend(records)
    return got


class Member:
    """A consumer of a group in a thread of its own, as programs run it; what it owns can be looked at from outside."""

    def __init__(self, make: Callable[[], KafkaConsumer]) -> None:
        self.owned: set[int] = set()
        self._leave = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(make,), daemon=True)
        self._thread.start()

    def _run(self, make: Callable[[], KafkaConsumer]) -> None:
        consumer = make()
        while not self._leave.is_set():
            consumer.poll(timeout_ms=200)
            self.owned = {place.partition for place in consumer.assignment()}
        consumer.close(autocommit=False)

    def leave(self) -> None:
        self._leave.set()
        self._thread.join(WAIT_SECONDS)
        assert not self._thread.is_alive(), "the member did not close"


@pytest.fixture
def join(bootstrap: str) -> Iterator[Callable[..., Member]]:
    made: list[Member] = []

    def make(topic: str, **settings: Any) -> Member:
        made.append(Member(lambda: subscribed(bootstrap, topic, **settings)))
        return made[-1]

    yield make
    for member in made:
        member.leave()


def owned_in_all(members: Sequence[Member], *counts: int) -> None:
    """Wait until the members own so many partitions each, no partition twice."""

    def reached() -> bool:
        owned = [member.owned for member in members]
        return [len(o) for o in owned] == list(counts) and len(set().union(*owned)) == sum(counts)

    eventually(reached, f"the members own {counts} partitions")


def test_a_record_keeps_all_its_parts(new_producer: NewClient, new_consumer: NewClient, topic: str) -> None:
    producer = new_producer()
    headers = [("trace", b"abc"), ("empty", b""), ("trace", b"again")]
    sent = producer.send(topic, b"value", key=b"key", headers=headers, timestamp_ms=1_700_000_000_123)
    assert (sent.get(WAIT_SECONDS).offset, sent.get().timestamp) == (0, 1_700_000_000_123)
    producer.send(topic, None, key=b"tombstone").get(WAIT_SECONDS)
    first, tombstone = read(new_consumer(topic), 2)
    assert (first.key, first.value, first.headers, first.timestamp) == (b"key", b"value", headers, 1_700_000_000_123)
    assert (tombstone.key, tombstone.value, tombstone.offset) == (b"tombstone", None, 1)


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_every_compression(new_producer: NewClient, new_consumer: NewClient, topic: str, compression: str) -> None:
    producer = new_producer(compression_type=None if compression == "none" else compression, linger_ms=20)
    values = [f"{number}:".encode() + b"longhall " * 50 for number in range(200)]
    for value in values:
        producer.send(topic, value)
    producer.flush(WAIT_SECONDS)
    assert [record.value for record in read(new_consumer(topic), 200)] == values


def test_big_records_pass_and_too_big_ones_do_not(new_producer: NewClient, new_consumer: NewClient, topic: str) -> None:
    producer = new_producer(max_request_size=8 << 20)
    producer.send(topic, b"x" * (900 << 10)).get(WAIT_SECONDS)
    with pytest.raises(MessageSizeTooLargeError):
        producer.send(topic, b"x" * (2 << 20)).get(WAIT_SECONDS)
    # An idempotent producer of this client takes the refusal for the end; the topic does not.
    new_producer().send(topic, b"small").get(WAIT_SECONDS)
    assert [len(r.value) for r in read(new_consumer(topic), 2)] == [900 << 10, 5]


def test_offsets_by_place_and_by_time(new_producer: NewClient, new_consumer: NewClient, topic: str) -> None:
    producer = new_producer()
    for number in range(10):
        producer.send(topic, str(number).encode(), timestamp_ms=1_700_000_000_000 + number * 1000).get(WAIT_SECONDS)
    consumer, here = new_consumer(), TopicPartition(topic, 0)
    assert consumer.beginning_offsets([here]) == {here: 0}
    assert consumer.end_offsets([here]) == {here: 10}
    found = consumer.offsets_for_times({here: 1_700_000_003_500})[here]
    assert (found.offset, found.timestamp) == (4, 1_700_000_004_000)
    assert consumer.offsets_for_times({here: 1_700_000_099_000})[here] is None

    consumer.assign([here])
    consumer.seek(here, 8)
    assert [r.offset for r in read(consumer, 2)] == [8, 9]
    consumer.seek_to_beginning(here)
    assert read(consumer, 1)[0].offset == 0
    consumer.seek_to_end(here)
    assert consumer.position(here) == 10


def test_a_waiting_reader_wakes_on_the_first_record(
    new_producer: NewClient, new_consumer: NewClient, topic: str
) -> None:
    consumer = new_consumer(topic, fetch_max_wait_ms=50_000, request_timeout_ms=60_000, connections_max_idle_ms=70_000)
    assert consumer.poll(timeout_ms=1000) == {}
    new_producer().send(topic, b"wake").get(WAIT_SECONDS)
    assert read(consumer, 1)[0].value == b"wake"


def test_small_fetches_still_bring_everything(
    new_producer: NewClient, new_consumer: NewClient, make_topic: MakeTopic
) -> None:
    topic = make_topic(partitions=2)
    producer = new_producer()
    for number in range(20):
        producer.send(topic, bytes([number]) * 20_000, partition=number % 2).get(WAIT_SECONDS)
    consumer = new_consumer(topic, max_partition_fetch_bytes=1000, fetch_max_bytes=1000)
    got = read(consumer, 20)
    for partition in range(2):
        assert [r.value[0] for r in got if r.partition == partition] == list(range(partition, 20, 2))


@pytest.mark.parametrize(
    "assignor",
    [RangePartitionAssignor, RoundRobinPartitionAssignor, StickyPartitionAssignor, CooperativeStickyAssignor],
)
def test_members_come_and_leave(
    join: Callable[..., Member], make_topic: MakeTopic, fresh_name: FreshName, assignor: type[Any]
) -> None:
    topic = make_topic(partitions=4)
    settings = {"group_id": fresh_name("group"), "partition_assignment_strategy": [assignor]}
    first = join(topic, **settings)
    owned_in_all([first], 4)
    second = join(topic, **settings)
    owned_in_all([first, second], 2, 2)
    second.leave()
    owned_in_all([first], 4)


def test_static_members_keep_their_partitions(
    join: Callable[..., Member], make_topic: MakeTopic, fresh_name: FreshName
) -> None:
    topic, group = make_topic(partitions=2), fresh_name("group")
    one = join(topic, group_id=group, group_instance_id="one")
    two = join(topic, group_id=group, group_instance_id="two")
    owned_in_all([one, two], 1, 1)
    before = two.owned
    two.leave()
    again = join(topic, group_id=group, group_instance_id="two")
    owned_in_all([one, again], 1, 1)
    assert again.owned == before


def test_a_group_continues_at_its_committed_offset(
    new_producer: NewClient, new_consumer: NewClient, topic: str, fresh_name: FreshName
) -> None:
    producer, group, here = new_producer(), fresh_name("group"), TopicPartition(topic, 0)
    for number in range(10):
        producer.send(topic, str(number).encode())
    producer.flush(WAIT_SECONDS)
    first = new_consumer(topic, group_id=group)
    read(first, 10)
    first.commit({here: OffsetAndMetadata(4, "my place", -1)})
    assert first.committed(here) == 4
    assert first.committed(here, metadata=True).metadata == "my place"
    first.close(autocommit=False)
    second = new_consumer(topic, group_id=group)
    assert [int(r.value) for r in read(second, 6)] == [4, 5, 6, 7, 8, 9]


def test_topics_are_made_on_first_use(new_producer: NewClient, new_consumer: NewClient, fresh_name: FreshName) -> None:
    name = fresh_name("made-by-use")
    new_producer().send(name, b"x").get(WAIT_SECONDS)
    assert name in new_consumer().topics()
    assert [r.value for r in read(new_consumer(name), 1)] == [b"x"]

"""Kafka clients that work while their node dies and restarts: each records its acknowledgements, and none gives up.

There are idempotent writers of small and of large records, transactional writers that commit or abort, a copier that
moves records from one topic to another with its offsets in the transaction, and a group member that commits as it
reads. All use confluent-kafka, each in a thread of its own. Values are `writer:number`, with increasing numbers.
"""

from __future__ import annotations

import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from functools import partial
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from soak.history import History, Outcome, Place

PARTITIONS: Final = 3
PLAIN, LEDGER, TARGET = "plain", "ledger", "target"
TOPICS: Final = (PLAIN, LEDGER, TARGET)
READERS, CARRIERS = "readers", "carriers"
CALL_SECONDS_MAX: Final = 20.0
# Offsets of a transaction go to the coordinator of the group, which librdkafka (2.16) caches. If it learns that this
# node is gone while such a call waits for it, the call never wakes up and ignores its time-out (its issues 5511 and
# 5456). The producer is abandoned then, as a careful program would do: the next one with the same transactional id ends
# the old transaction.
OFFSETS_SECONDS_MAX: Final = 15.0
MAKE_SECONDS_MAX: Final = 60.0  # For topics, and for wings that have to be created first.
IN_FLIGHT_MAX: Final = 300
RATE_PER_SECOND: Final = 600
PADDING: Final = b" " * 70_000
_QUICK: Final = {
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 200,
    "retry.backoff.ms": 20,
    # When its only broker is down, this client drops it and starts from the bootstrap list; a call that waits for the
    # transaction coordinator at that moment then waits for ever (librdkafka 2.16). Discovery would find no other broker
    # here.
    "metadata.recovery.strategy": "none",
    "log_level": 0,
}


class Hung(RuntimeError):
    """A worker does not return from its client, which should have timed out."""


class Worker:
    """A thread that runs until it is asked to finish; its exception is raised in the thread that waits for it."""

    def __init__(self, name: str, bootstrap: str, history: History) -> None:
        self.name = name
        self.bootstrap = bootstrap
        self.history = history
        self.pace = 1.0  # Fraction of its usual speed.
        self.settings: dict[str, Any] = {}  # Settings of its clients, beside the common ones.
        self.stopping = threading.Event()
        self.given_up = 0  # Clients abandoned because a call did not return in time.
        self.failure: BaseException | None = None
        self._thread = threading.Thread(target=self._guarded, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def finish(self, seconds_max: float = 150.0) -> None:
        """Ask the worker to end and wait; a worker that does not end raises Hung."""
        self.stopping.set()
        self._thread.join(seconds_max)
        if self._thread.is_alive():
            frame = sys._current_frames().get(self._thread.ident or 0)
            stack = "".join(traceback.format_stack(frame)) if frame is not None else ""
            raise Hung(f"{self.name} did not finish within {seconds_max:.0f} s; its stack is\n{stack}")
        if self.failure is not None:
            raise self.failure

    def _guarded(self) -> None:
        try:
            self.run()
        except BaseException as failure:
            self.failure = failure

    def run(self) -> None:
        raise NotImplementedError

    def producer(self, **settings: Any) -> Producer:
        return Producer({"bootstrap.servers": self.bootstrap, "linger.ms": 2, **_QUICK, **self.settings, **settings})

    def consumer(self, group: str, **settings: Any) -> Consumer:
        base = {
            "group.id": group,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "session.timeout.ms": 6000,
        }
        return Consumer({"bootstrap.servers": self.bootstrap, **base, **_QUICK, **self.settings, **settings})


class IdempotentWriter(Worker):
    """Sends numbers to all partitions, many in flight; it stays the same producer through every restart."""

    rate_per_second = RATE_PER_SECOND
    padding = b""

    def run(self) -> None:
        producer = self.producer(**{"enable.idempotence": True, "message.timeout.ms": 120_000})
        number = 0
        while not self.stopping.is_set():
            if len(producer) < IN_FLIGHT_MAX:
                number += 1
                value = f"{self.name}:{number}".encode() + self.padding
                producer.produce(PLAIN, value, partition=number % PARTITIONS, on_delivery=self._delivered)
            producer.poll(0)
            self.stopping.wait(
                1 / self.rate_per_second / self.pace
            )  # A poll alone would return after the first acknowledgement.
        producer.flush(CALL_SECONDS_MAX)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self.history.acknowledged(*received(message))
        else:
            self.history.refused(f"{(message.value() or b'')[:40]!r}: {error}")


class BulkyWriter(IdempotentWriter):
    """The same with records that are large enough to bypass the write-ahead log."""

    rate_per_second = 8
    padding = PADDING


class TransactionalWriter(Worker):
    """Transactions over all partitions of the ledger; every fourth is aborted."""

    def run(self) -> None:
        producer: Producer | None = None
        number = 0
        while not self.stopping.is_set():
            if producer is None:
                producer = self._open()
                continue
            number += 1
            parts = [((LEDGER, part % PARTITIONS), f"{self.name}:{number}:{part}".encode()) for part in range(6)]
            name = f"{self.name}:{number}"
            self.history.began(name, parts)
            outcome = _transact(producer, partial(_produce, producer, parts), abort=number % 4 == 0)
            self.history.ended(name, outcome)
            if outcome is Outcome.UNKNOWN:
                producer = None
            self.stopping.wait(1 / RATE_PER_SECOND / self.pace)

    def _open(self) -> Producer | None:
        return _ready(self.producer(**{"transactional.id": self.name, "transaction.timeout.ms": 5_000}))


class Carrier(Worker):
    """Reads one topic and writes each record to another, offsets and output in one transaction."""

    def run(self) -> None:
        producer: Producer | None = None
        consumer = self.consumer(CARRIERS, **{"isolation.level": "read_committed"})
        places = [TopicPartition(PLAIN, number) for number in range(PARTITIONS)]
        consumer.assign(places)
        rewind = True
        while not self.stopping.is_set():
            if producer is None:
                producer = _ready(self.producer(**{"transactional.id": self.name, "transaction.timeout.ms": 5_000}))
                continue
            if rewind:
                rewind = not _rewind(consumer, places)
                continue
            messages = [m for m in consumer.consume(100, 0.2) if m.error() is None]
            if not messages:
                continue
            try:
                outcome = _transact(producer, partial(self._carry, producer, consumer, messages))
            except TimeoutError:
                outcome = Outcome.UNKNOWN
                self.given_up += 1
            rewind = outcome is not Outcome.COMMITTED
            if outcome is Outcome.UNKNOWN:
                producer = None
        consumer.close()

    def _carry(self, producer: Producer, consumer: Consumer, messages: list[Message]) -> None:
        ahead: dict[int, int] = {}
        for message in messages:
            (_, partition), offset, _ = received(message)
            producer.produce(TARGET, message.value(), partition=partition)
            ahead[partition] = offset + 1
        offsets = [TopicPartition(PLAIN, partition, offset) for partition, offset in ahead.items()]
        group = consumer.consumer_group_metadata()
        _within(OFFSETS_SECONDS_MAX, partial(producer.send_offsets_to_transaction, offsets, group, CALL_SECONDS_MAX))


class Committer(Worker):
    """A group member that commits what it has read and records the acknowledged commits."""

    def run(self) -> None:
        consumer = self.consumer(READERS, **{"heartbeat.interval.ms": 300})
        consumer.subscribe([PLAIN])
        while not self.stopping.is_set():
            messages = [m for m in consumer.consume(100, 0.2) if m.error() is None]
            if not messages:
                continue
            try:
                taken = consumer.commit(asynchronous=False)
            except KafkaException:
                continue  # A refused commit guarantees nothing.
            for place in taken or []:
                if place.error is None and place.offset >= 0:
                    self.history.committed(READERS, (place.topic, place.partition), place.offset)
        consumer.close()


class Load:
    """All workers together, on topics of their own."""

    def __init__(
        self,
        bootstrap: str,
        history: History,
        *,
        pace: float = 1.0,
        settings: Mapping[str, Any] | None = None,
        placement: str = "hall",
    ) -> None:
        """The placement applies to the topic without transactions, since transactions do not reach into wings."""
        self._bootstrap = bootstrap
        self._plain = {"longhall.placement": placement} if placement != "hall" else {}
        self._workers: list[Worker] = [
            IdempotentWriter("i1", bootstrap, history),
            IdempotentWriter("i2", bootstrap, history),
            BulkyWriter("b1", bootstrap, history),
            TransactionalWriter("t1", bootstrap, history),
            TransactionalWriter("t2", bootstrap, history),
            Carrier("c1", bootstrap, history),
            Committer("m1", bootstrap, history),
        ]
        for worker in self._workers:
            worker.pace = pace
            worker.settings = dict(settings or {})

    def start(self) -> None:
        admin = AdminClient({"bootstrap.servers": self._bootstrap})
        wanted = [
            NewTopic(
                topic, num_partitions=PARTITIONS, replication_factor=-1, config=self._plain if topic == PLAIN else {}
            )
            for topic in TOPICS
        ]
        for future in admin.create_topics(wanted, request_timeout=MAKE_SECONDS_MAX).values():
            future.result(MAKE_SECONDS_MAX)
        for worker in self._workers:
            worker.start()

    def failures(self) -> list[str]:
        return [f"{worker.name} died: {worker.failure!r}" for worker in self._workers if worker.failure is not None]

    def stop(self) -> None:
        """Ask all workers to end, without waiting."""
        for worker in self._workers:
            worker.stopping.set()

    def finish(self, hung: list[str] | None = None) -> None:
        """Wait until all workers have ended. With `hung`, those that hang are added to it and abandoned."""
        self.stop()
        for worker in self._workers:
            try:
                worker.finish()
            except Hung as failure:
                if hung is None:
                    raise
                hung.append(str(failure))
            if hung is not None and worker.given_up:
                hung.append(f"{worker.given_up} clients of {worker.name}, whose calls did not return in time")


def received(message: Message) -> tuple[Place, int, bytes]:
    """Partition, offset and value of a message; the client's types allow for messages without them."""
    topic, partition, offset, value = message.topic(), message.partition(), message.offset(), message.value()
    assert topic is not None
    assert partition is not None
    assert offset is not None
    assert isinstance(value, bytes)
    if value.endswith(PADDING):
        value = value.removesuffix(PADDING) + b":0"  # Complete padding need not be stored.
    return (topic, partition), offset, value


def _within(seconds_max: float, call: Callable[[], None]) -> None:
    """Call it in a thread, which is abandoned after `seconds_max` with TimeoutError."""
    done: Future[None] = Future()

    def work() -> None:
        try:
            call()
        except BaseException as failure:
            done.set_exception(failure)
        else:
            done.set_result(None)

    threading.Thread(target=work, name="a call", daemon=True).start()
    done.result(seconds_max)


def _ready(producer: Producer) -> Producer | None:
    try:
        producer.init_transactions(CALL_SECONDS_MAX)
    except KafkaException:
        return None
    return producer


def _produce(producer: Producer, parts: list[tuple[Place, bytes]]) -> None:
    for (topic, partition), value in parts:
        producer.produce(topic, value, partition=partition)


def _transact(producer: Producer, body: Callable[[], None], *, abort: bool = False) -> Outcome:
    """Run one transaction to its end. A call that timed out is repeated, as the client's documentation says."""
    try:
        producer.begin_transaction()
        body()
        if abort:
            producer.flush(CALL_SECONDS_MAX)
            return _insist(producer.abort_transaction, Outcome.ABORTED)
        return _insist(producer.commit_transaction, Outcome.COMMITTED)
    except KafkaException as problem:
        if not problem.args[0].txn_requires_abort():
            return Outcome.UNKNOWN
    try:
        return _insist(producer.abort_transaction, Outcome.ABORTED)
    except KafkaException:
        return Outcome.UNKNOWN


def _insist(call: Callable[[float], None], outcome: Outcome) -> Outcome:
    deadline = time.monotonic() + 3 * CALL_SECONDS_MAX
    while True:
        try:
            call(CALL_SECONDS_MAX)
        except KafkaException as problem:
            if not problem.args[0].retriable() or time.monotonic() > deadline:
                raise
        else:
            return outcome


def _rewind(consumer: Consumer, places: list[TopicPartition]) -> bool:
    """Seek to the group's committed offsets; False if the node did not answer."""
    try:
        for place in consumer.committed(places, timeout=CALL_SECONDS_MAX):
            if place.error is not None:
                return False
            consumer.seek(TopicPartition(place.topic, place.partition, max(place.offset, 0)))
    except KafkaException:
        return False
    return True

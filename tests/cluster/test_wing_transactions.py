"""Transactions of an unmodified client over three wings of a real cluster, with offsets; their coordinator dies.

The death comes between the decision and the markers: the processes of one of the wings are stopped, so that its marker
cannot be written, until the leader of the hall has decided and died.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from longhall.client.hall import Hall
from longhall.client.refusals import Refused, Unreachable
from longhall.coordination.ensemble import Ensemble
from longhall.world.real.network import RealNetwork
from soak.cluster import Cluster, wait_until
from soak.node import Node
from tests.cluster.wings import wings_of

PARTITIONS = 3
WAIT_SECONDS = 60.0
TOPIC, GROUP, TRANSACTIONAL_ID = "placed", "readers", "tx"


@pytest.fixture
def winged(ensemble: Ensemble, tmp_path: Path) -> Iterator[Cluster]:
    made = Cluster(tmp_path, session_ms=3000, zookeeper=ensemble, path=f"/{tmp_path.name}")
    try:
        made.start()
        yield made
    finally:
        made.stop()


def _process_of(node: Node, wing: str) -> int:
    """The process of a wing on a host, by its name."""
    for line in Path("/proc").iterdir():
        if not line.name.isdigit() or int(line.name) == node.pid:
            continue
        try:
            if os.getpgid(int(line.name)) != os.getpgid(node.pid):
                continue
            name = (line / "comm").read_text().strip()
        except OSError:
            continue
        if name == f"wing:{wing}"[:15]:
            return int(line.name)
    raise AssertionError(f"{wing} has no process on node {node.pid}")


def _wait_for(address: str, state: str) -> None:
    """Wait until DescribeTransactions says that the transaction is in this state."""

    async def look() -> None:
        hall = await Hall.connect(RealNetwork(), address, patience_ms=3000)
        found = ""
        try:
            async with asyncio.timeout(WAIT_SECONDS * 2):
                while found != state:
                    with contextlib.suppress(Refused, Unreachable):
                        found = (await hall.transactions.describe(TRANSACTIONAL_ID)).transaction_state
                    await asyncio.sleep(0.02)
        finally:
            hall.close()

    asyncio.run(look())


def _signal(processes: list[int], number: signal.Signals) -> None:
    """Send a signal to these processes. Watchdogs may have ended some that were stopped."""
    for process in processes:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, number)


def _create(bootstrap: str) -> bool:
    """Create the topic, with a partition in each wing. False if the wings do not run yet."""
    topic = NewTopic(TOPIC, PARTITIONS, config={"longhall.placement": "parts"})
    admin = AdminClient({"bootstrap.servers": bootstrap})
    try:
        admin.create_topics([topic])[TOPIC].result(WAIT_SECONDS)
    except KafkaException as error:
        return bool(error.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS)
    return True


def _write(producer: Producer, consumer: Consumer, word: str, offset: int) -> None:
    """One transaction: a message in each wing, and an offset."""
    producer.begin_transaction()
    for partition in range(PARTITIONS):
        producer.produce(TOPIC, f"{word}-{partition}", partition=partition)
    producer.flush(WAIT_SECONDS)
    producer.send_offsets_to_transaction(
        [TopicPartition(TOPIC, 0, offset)], consumer.consumer_group_metadata(), WAIT_SECONDS
    )


def _read(consumer: Consumer, count: int) -> list[str]:
    """The committed messages, at least this many, and those that follow at once."""
    consumer.assign([TopicPartition(TOPIC, number, 0) for number in range(PARTITIONS)])
    found: list[str] = []
    quiet = 0
    for _ in range(600):
        message = consumer.poll(0.1)
        if message is not None and message.error() is None:
            found.append((message.value() or b"").decode())
        quiet = 0 if message is not None else quiet + 1
        if len(found) >= count and quiet > 10:
            break
    return sorted(found)


@pytest.mark.timeout(600)
def test_a_transaction_over_three_wings_is_atomic_though_its_coordinator_dies(winged: Cluster) -> None:
    wait_until(lambda: _create(winged.bootstrap), "the wings", winged.log_tails)
    wings = wings_of(winged)
    assert len({wing["leader"] for wing in wings}) == PARTITIONS
    patience = {"transaction.timeout.ms": 300_000}  # A busy machine may take long to elect leaders.
    producer = Producer({"bootstrap.servers": winged.bootstrap, "transactional.id": TRANSACTIONAL_ID, **patience})
    producer.init_transactions(WAIT_SECONDS)
    settings = {"bootstrap.servers": winged.bootstrap, "group.id": GROUP, "enable.auto.commit": False}
    consumer = Consumer({**settings, "isolation.level": "read_committed", "auto.offset.reset": "earliest"})
    _write(producer, consumer, "committed", 1)
    producer.commit_transaction(WAIT_SECONDS)
    _write(producer, consumer, "aborted", 2)
    producer.abort_transaction(WAIT_SECONDS)

    leader = winged.leader()
    wing = next(one["wing"] for one in wings if one["leader"] != leader)
    stopped = [_process_of(node, wing) for node in winged.nodes.values()]
    _write(producer, consumer, "decided", 3)
    _signal(stopped, signal.SIGSTOP)
    try:
        failures: list[BaseException] = []

        def commit() -> None:
            try:
                producer.commit_transaction(WAIT_SECONDS)
            except BaseException as error:  # Told to the test.
                failures.append(error)

        committing = threading.Thread(target=commit)
        committing.start()
        _wait_for(winged.nodes[leader].bootstrap, "PrepareCommit")
        winged.nodes[leader].kill()
    finally:
        _signal(stopped, signal.SIGCONT)
    committing.join(WAIT_SECONDS * 2)
    assert not committing.is_alive()
    assert failures == []
    _wait_for(next(node.bootstrap for node in winged.nodes.values() if node.running), "CompleteCommit")

    everything = sorted(f"{word}-{number}" for word in ("committed", "decided") for number in range(PARTITIONS))
    assert _read(consumer, len(everything)) == everything
    (offset,) = consumer.committed([TopicPartition(TOPIC, 0)], WAIT_SECONDS)
    assert offset.offset == 3

    consumer.close()

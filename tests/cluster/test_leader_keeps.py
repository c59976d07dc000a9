"""A live leader loses nothing that it has acknowledged alone, though its ZooKeeper session has expired."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from soak.cluster import Cluster
from tests.cluster.ledger import TOPIC, acknowledged, make_topic, readable

PAUSE_S = 6.0  # Three sessions.


@pytest.fixture
def three(tmp_path: Path) -> Iterator[Cluster]:
    made = Cluster(tmp_path, session_ms=2000, settings={"watchdog": "false"})  # The watchdog would end a paused node.
    made.start()
    try:
        yield made
    finally:
        made.stop()


def test_a_live_leader_loses_nothing_that_it_acknowledged_alone(three: Cluster) -> None:
    make_topic(three)
    leader = three.leader()
    follower = next(number for number in three.nodes if number != leader)
    zookeepers = [server.pid for server in three.zookeeper.servers]
    told: list[str] = []

    def answered(error: object, message: object) -> None:
        if error is None:
            told.append(message.value().decode())

    producer = Producer({"bootstrap.servers": three.bootstrap, "acks": "1", "linger.ms": 2, "retries": 0})
    for process in (*zookeepers, three.nodes[follower].pid):
        os.kill(process, signal.SIGSTOP)
    try:
        until = time.monotonic() + PAUSE_S
        number = 0
        while time.monotonic() < until:
            producer.produce(TOPIC, value=f"{number} ".ljust(200, "x"), partition=0, on_delivery=answered)
            number += 1
            producer.poll(0.002)
    finally:
        for process in (*zookeepers, three.nodes[follower].pid):
            os.kill(process, signal.SIGCONT)
    producer.flush(30)
    assert told
    acknowledged(three, ["behind all of them"])  # Readers see only what all in-sync replicas have.
    three.wait_in_sync()
    found = set(readable(three.bootstrap))
    lost = [word.split()[0] for word in told if word not in found]
    assert not lost, f"{len(lost)} of {len(told)} that were acknowledged are gone"

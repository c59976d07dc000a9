"""`longhall cluster up`: one command starts three nodes and their ZooKeeper; acknowledged messages survive a
restart.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pika
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from longhall.coordination.ensemble import Ensemble
from longhall.node.addresses import DOORS
from soak.node import COMMAND
from tests.cluster.load import sqs_client

READY_SECONDS_MAX = 60.0


def _hear() -> None:
    """Restore the signal handlers, which a background process inherits as ignored."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


@contextmanager
def running(home: Path, end: signal.Signals = signal.SIGINT) -> Iterator[dict[str, Any]]:
    """The contents of the ready file, between start and a clean end."""
    ready = home / "ready.json"
    log = (home / "log").open("ab")
    command = [*COMMAND, "cluster", "up", "--nodes", "3", "--free-ports"]
    command += ["--data", str(home / "data"), "--ready-file", str(ready)]
    began = time.monotonic()
    process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True, preexec_fn=_hear)
    try:
        while not ready.exists():
            said = (home / "log").read_text()
            assert process.poll() is None, said
            assert time.monotonic() - began < READY_SECONDS_MAX, said
            time.sleep(0.02)
        print(f"three nodes are ready after {time.monotonic() - began:.1f} s")
        told = json.loads(ready.read_text())
        yield told
        process.send_signal(end)
        assert process.wait(60) == 0
        assert not ready.exists()
        for node in told["nodes"]:
            assert not _lives(node["pid"])
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait(60)
        log.close()


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def _status(http: str) -> list[dict[str, Any]]:
    command = [*COMMAND, "cluster", "status", "--http", http, "-o", "json"]
    shown: list[dict[str, Any]] = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    return shown


def test_a_cluster_survives_down_and_up(ensemble: Ensemble, tmp_path: Path) -> None:
    """`ensemble` is not used: where it cannot be started, this test cannot run either."""
    with running(tmp_path) as told:
        assert told["zookeeper"].startswith("zk://127.0.0.1:")
        assert [set(node) for node in told["nodes"]] == [{"node", "pid", "peers", *DOORS}] * 3
        for node in told["nodes"]:
            rows = _status(node["http"])
            assert [row["node"] for row in rows] == [1, 2, 3]
            assert all(row["alive"] and row["in_sync"] for row in rows)
            assert sum(row["leader"] for row in rows) == 1
            assert [row["lag_entries"] is not None for row in rows] == [True] * 3
        producer = Producer({"bootstrap.servers": told["nodes"][0]["kafka"]})
        for number in range(10):
            producer.produce("kept", str(number))
        assert producer.flush(30) == 0
    with running(tmp_path, signal.SIGHUP) as told:
        settings = {"bootstrap.servers": told["nodes"][1]["kafka"], "group.id": "g", "enable.auto.commit": False}
        consumer = Consumer(settings)
        consumer.assign([TopicPartition("kept", 0, 0)])
        found: list[Any] = consumer.consume(10, 30)
        consumer.close()
        assert [message.value().decode() for message in found] == [str(number) for number in range(10)]


def test_every_host_leads_a_share_of_what_clients_create(ensemble: Ensemble, tmp_path: Path) -> None:
    """Nobody says anything of placements: neither the operator nor the clients."""
    with running(tmp_path) as told:
        admin = AdminClient({"bootstrap.servers": told["nodes"][0]["kafka"]})
        made = [NewTopic("events", num_partitions=6), *(NewTopic(f"log-{at}", num_partitions=1) for at in range(3))]
        for done in admin.create_topics(made).values():
            done.result(30)
        for at in range(6):
            node = told["nodes"][at % 3]
            if at < 3:
                sqs_client(node["sqs"]).create_queue(QueueName=f"sqs-{at}")
                continue
            host, port = node["amqp"].rsplit(":", 1)
            connection = pika.BlockingConnection(pika.ConnectionParameters(host, int(port)))
            connection.channel().queue_declare(f"amqp-{at}", durable=True)
            connection.close()
        for prefix in ("events", "log-", "sqs-", "amqp-"):
            command = [*COMMAND, "cluster", "map", prefix, "--http", told["nodes"][1]["http"], "-o", "json"]
            rows = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
            assert {row["leader"] for row in rows} == {1, 2, 3}, rows


def test_a_single_node_has_no_cluster_status(tmp_path: Path) -> None:
    from soak.node import Node

    with Node(tmp_path / "data") as node:
        command = [sys.executable, "-m", "longhall.cli", "cluster", "status", "--http", node.http]
        refused = subprocess.run(command, capture_output=True, text=True)
        assert refused.returncode == 1
        assert "alone" in refused.stderr
    refused = subprocess.run(command, capture_output=True, text=True)
    assert refused.returncode == 3

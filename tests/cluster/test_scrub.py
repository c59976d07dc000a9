"""Bits that flip on the disks of a real cluster without a reader: one scrub pass repairs all of them."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic

from soak.cluster import Cluster
from soak.node import COMMAND
from tests.clients.librdkafka import new_producer, send

TOPIC = "cold"
RECORDS = 240
BODY = b"0123456789" * 100


def test_flipped_bits_are_repaired_on_any_node_without_a_reader(cluster: Cluster) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.create_topics([NewTopic(TOPIC, 1, config={"segment.bytes": "16384"})])[TOPIC].result(30)
    producer = new_producer(cluster.bootstrap)
    for number in range(RECORDS // 6):
        send(producer, TOPIC, [b"%d " % at + BODY for at in range(number * 6, number * 6 + 6)])
    scrub(cluster)  # By then all messages are in their segments, undamaged.
    leader, followers = cluster.leader(), cluster.followers()
    good = {number: segments(cluster.nodes[number].data) for number in (leader, *followers)}
    paths = [path for path in sorted(good[leader]) if BODY in good[leader][path]][:-1]
    assert len(paths) >= 8
    flipped = {leader: paths[:2], followers[0]: paths[1:4], followers[1]: paths[4:6]}
    for number, damaged in flipped.items():
        for path in damaged:
            flip(cluster.nodes[number].data / path, 5000)
        # Of a segment that is undamaged on all nodes: an index that a repair needs is rebuilt at once.
        flip((cluster.nodes[number].data / paths[6]).with_suffix(".index"), 70)

    views = {view["node"]: view for view in scrub(cluster)}
    for number, damaged in flipped.items():
        assert views[number]["damage"] == views[number]["repaired"] == len(damaged) + 1, views
        assert views[number]["damaged_now"] == []
        now = segments(cluster.nodes[number].data)
        assert all(now[path] == good[leader][path] for path in paths)
    cluster.wait_in_sync()


def scrub(cluster: Cluster) -> list[dict[str, object]]:
    """Request a pass on every node at a follower; returns their reports."""
    node = cluster.nodes[cluster.followers()[0]]
    command = [*COMMAND, "scrub", "--now", "--http", node.http, "-o", "json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    found: list[dict[str, object]] = json.loads(done.stdout)
    return found


def segments(data: Path) -> dict[str, bytes]:
    return {os.fspath(path.relative_to(data)): path.read_bytes() for path in data.glob("partitions/*/*.log")}


def flip(path: Path, at: int) -> None:
    """Flip a bit on the disk and in the page cache."""
    with path.open("r+b") as file:
        byte = os.pread(file.fileno(), 1, at)
        os.pwrite(file.fileno(), bytes([byte[0] ^ 0x10]), at)
        os.fsync(file.fileno())

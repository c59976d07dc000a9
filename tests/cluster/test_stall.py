"""Real processes: a leader under acks=1 load that cannot commit bounds its memory and its log."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import KafkaError, Message, Producer

from longhall.coordination.ensemble import PartMissing
from soak.cluster import Cluster
from soak.stall import MEMORY_SHARE, TOPIC, stall
from tests.left_out import leave_out

MEMORY_BYTES = 32 << 20
SECONDS = 8.0
BYTES_A_SECOND = 25 << 20
LOG_FILE_BYTES = 32 << 20


@pytest.mark.timeout(180)
def test_memory_and_log_are_bounded_while_the_commit_stalls(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, session_ms=3000, settings={"memory_bytes": str(MEMORY_BYTES)})
    try:
        try:
            cluster.start()
        except PartMissing as failure:
            leave_out(str(failure))
        seen = stall(cluster, SECONDS, BYTES_A_SECOND)
        said = cluster.nodes[seen.leader].log_text()
        assert seen.grown_bytes <= MEMORY_SHARE * MEMORY_BYTES, seen
        assert seen.log_bytes <= MEMORY_BYTES + 2 * LOG_FILE_BYTES, seen
        assert seen.acknowledged > 0
        assert said.count("back-pressure: messages are refused") == 1, said[-3000:]
        told: list[KafkaError | None] = []

        def delivered(error: KafkaError | None, message: Message) -> None:
            told.append(error)

        producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "socket.timeout.ms": 4_000})
        producer.produce(TOPIC, b"afterwards", on_delivery=delivered)
        assert producer.flush(60) == 0
        assert told == [None]
    finally:
        cluster.stop()

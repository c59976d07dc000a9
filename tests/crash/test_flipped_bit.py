"""A flipped bit in an old segment: the doctor reports it, readers of that range are refused, the rest is served."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from soak.node import COMMAND
from tests.clients.librdkafka import new_producer, read, read_all, send
from tests.crash.conftest import NewNode

RECORDS = 60
VICTIM = 20


@pytest.mark.timeout(120)
def test_damage_is_reported_and_refused(new_node: NewNode) -> None:
    node = new_node()
    node.start()
    producer = new_producer(node.bootstrap)
    for number in range(RECORDS):
        send(producer, "old", [_value(number)])  # One at a time, a batch each, so that the other batches stay readable.
    send(producer, "other", [b"fine"])
    assert node.stop() == 0
    assert _doctor(node.data, "--verify").returncode == 0

    segment = _flip(node.data, _value(VICTIM))
    report = _doctor(node.data, "--verify")
    assert report.returncode != 0
    assert "Traceback" not in report.stderr
    assert segment.parent.name in report.stdout + report.stderr or segment.name in report.stdout + report.stderr

    node.start()
    assert [m.value() for m in read_all(node.bootstrap, "other")] == [b"fine"]
    assert _error_at(node.bootstrap, VICTIM) == "INVALID_MSG"  # Kafka's name for a corrupt message.
    assert _readable_from(node.bootstrap, VICTIM + 1) == [_value(n) for n in range(VICTIM + 1, RECORDS)]
    before = _readable_from(node.bootstrap, 0, VICTIM)
    assert before == [_value(n) for n in range(VICTIM)]
    send(new_producer(node.bootstrap), "old", [b"new"])
    assert _readable_from(node.bootstrap, RECORDS, 1) == [b"new"]
    assert node.running


def _value(number: int) -> bytes:
    return f"record number {number:06d} ".encode() * 40


def _flip(data: Path, value: bytes) -> Path:
    """Flip one bit in the middle of the value in its segment; the log must not have it any more."""
    for file in sorted((data / "partitions").rglob("*.log")):
        content = file.read_bytes()
        at = content.find(value)
        if at >= 0:
            position = at + len(value) // 2
            with file.open("r+b") as segment:
                os.pwrite(segment.fileno(), bytes([content[position] ^ 0x10]), position)
            return file
    raise AssertionError("no segment holds the record; a clean stop should have put it there")


def _doctor(data: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*COMMAND, "doctor", os.fspath(data), *options], capture_output=True, text=True, timeout=60)


def _reader(bootstrap: str, offset: int) -> Consumer:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "x", "auto.offset.reset": "error"})
    consumer.assign([TopicPartition("old", 0, offset)])
    return consumer


def _error_at(bootstrap: str, offset: int) -> str:
    consumer = _reader(bootstrap, offset)
    try:
        message = next(m for m in (consumer.poll(1.0) for _ in range(20)) if m is not None)
        error = message.error()
        assert error is not None, f"the damaged record was served: {message.value()!r}"
        return str(error.name())
    finally:
        consumer.close()


def _readable_from(bootstrap: str, offset: int, count: int = RECORDS - VICTIM - 1) -> list[bytes]:
    consumer = _reader(bootstrap, offset)
    try:
        return [bytes(m.value() or b"") for m in read(consumer, count)]
    finally:
        consumer.close()

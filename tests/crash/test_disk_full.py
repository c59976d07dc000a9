"""A full disk: producers are refused with the protocol's error, everything else goes on, and the node recovers by
itself.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.clients.librdkafka import new_consumer, new_producer, read_all, send
from tests.crash.conftest import Mount, NewNode

MEGABYTE = 1 << 20
RECORD = b"x" * 100_000


@pytest.mark.timeout(180)
@pytest.mark.parametrize(
    ("size_megabytes", "ballast_megabytes", "left_megabytes", "options"),
    [(500, 200, 64, []), (160, 60, 0, ["--set", "disk_reserve_bytes=0"])],
    ids=["down to the reserve", "down to the last byte"],
)
def test_only_producing_is_refused_on_a_full_disk(
    new_node: NewNode,
    mount: Mount,
    size_megabytes: int,
    ballast_megabytes: int,
    left_megabytes: int,
    options: list[str],
) -> None:
    place = mount("-t", "tmpfs", "-o", f"size={size_megabytes}m", "tmpfs")
    ballast = place / "ballast"
    ballast.write_bytes(bytes(ballast_megabytes * MEGABYTE))
    node = new_node(place / "data", options=options)
    node.start()
    send(new_producer(node.bootstrap), "before", [b"one", b"two"])

    # Without retries the client reports the broker's answer; with them it would only report a time-out.
    producer = new_producer(node.bootstrap, acks="all", enable_idempotence=False, retries=0, linger_ms=0)
    taken, refusals = _fill(producer)
    assert refusals == {"KAFKA_STORAGE_ERROR"}
    assert node.running
    # The default reserve is 128 MB; requests under way when it was reached may use a part of it.
    left = os.statvfs(place)
    assert left.f_bavail * left.f_bsize >= left_megabytes * MEGABYTE, "the reserve was used up by producers"

    assert [m.value() for m in read_all(node.bootstrap, "before")] == [b"one", b"two"]
    consumer = new_consumer(node.bootstrap, "readers")
    for number in range(20):
        _commit(consumer, number)
    # Without a reserve a small record may fit, and be accepted, where a large one did not.
    assert (_produced(producer) if left_megabytes else _refused_at_last(producer)) == "KAFKA_STORAGE_ERROR"

    ballast.unlink()
    _wait_until_taken(producer)
    consumer.close()

    # Nothing that was acknowledged before the disk was full is missing, also after a kill at this point.
    node.kill()
    node.start()
    offsets = [m.offset() for m in read_all(node.bootstrap, "filler") if m.value() == RECORD]
    assert set(taken) <= set(offsets)
    again = new_consumer(node.bootstrap, "readers")
    assert again.committed([TopicPartition("before", 0)], timeout=20)[0].offset == 19
    again.close()


def _fill(producer: Producer) -> tuple[list[int], set[str]]:
    """Produce until the broker refuses; returns the acknowledged offsets and the names of the errors."""
    taken: list[int] = []
    refused: set[str] = set()

    def done(error: Any, message: Any) -> None:
        if error is None:
            taken.append(message.offset())
        else:
            refused.add(error.name())

    deadline = time.monotonic() + 60
    while not refused:
        assert time.monotonic() < deadline, f"{len(taken)} records were taken and none refused"
        producer.produce("filler", RECORD, on_delivery=done)
        producer.poll(0 if len(producer) < 50 else 0.05)
    assert producer.flush(30) == 0
    assert taken
    return taken, refused


def _refused_at_last(producer: Producer) -> str:
    """Send large records to the same topic until one is refused; returns the name of the error."""
    deadline = time.monotonic() + 60
    while (answer := _produced(producer, RECORD)) == "taken":
        assert time.monotonic() < deadline, "a full disk takes records without end"
    return answer


def _produced(producer: Producer, value: bytes = b"small") -> str:
    """Send one record; returns the name of the error, or "taken"."""
    answers: list[str] = []
    producer.produce("filler", value, on_delivery=lambda e, m: answers.append("taken" if e is None else e.name()))
    assert producer.flush(30) == 0
    return answers[0]


def _wait_until_taken(producer: Producer) -> None:
    deadline = time.monotonic() + 30
    while _produced(producer) != "taken":
        assert time.monotonic() < deadline, "producing is still refused though there is space again"
        time.sleep(0.1)


def _commit(consumer: Consumer, offset: int) -> None:
    (taken,) = consumer.commit(offsets=[TopicPartition("before", 0, offset)], asynchronous=False)
    assert taken.error is None, taken.error


def test_a_directory_without_any_space_is_refused_in_one_line(new_node: NewNode, mount: Mount, tmp_path: Path) -> None:
    place = mount("-t", "tmpfs", "-o", "size=1m", "tmpfs")
    node = new_node(place / "data")
    node.launch()
    assert node.wait_end() != 0
    lines = [line for line in node.log_text().splitlines() if line.startswith("longhall:")]
    assert len(lines) == 1
    assert "space" in lines[0]
    assert "Traceback" not in node.log_text()

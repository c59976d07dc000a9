"""Rot in the last acknowledged frame of a killed node: repaired or reported, never cut silently."""

from __future__ import annotations

import subprocess
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

from soak.node import COMMAND, Node
from tests.clients.librdkafka import new_producer, read_all, send
from tests.crash.conftest import NewNode

LAST = b"the last message that was acknowledged " * 20
IDLE_S = 2.5  # Longer than an idle log takes to write its last frame.


def played(node: Node, *, idle_s: float) -> Path:
    """A killed node that has acknowledged its last message, and the file with its frame."""
    node.start()
    producer = new_producer(node.bootstrap)
    send(producer, "t", [b"before"])
    _wait_for(lambda: metric(node, "longhall_checkpoints_total") >= 1)  # The first one comes soon after the start.
    send(producer, "t", [LAST])
    time.sleep(idle_s)
    node.kill()
    (file,) = [one for one in (node.data / "wal").iterdir() if LAST in one.read_bytes()]
    return file


def _wait_for(holds: Callable[[], bool]) -> None:
    for _ in range(100):
        if holds():
            return
        time.sleep(0.1)
    raise AssertionError("it did not happen in time")


def flip(file: Path, *bits: int) -> None:
    data = bytearray(file.read_bytes())
    at = data.index(LAST)
    for bit in bits:
        data[at + bit // 8] ^= 1 << bit % 8
    file.write_bytes(data)


def metric(node: Node, name: str) -> float:
    with urllib.request.urlopen(f"http://{node.http}/metrics", timeout=20) as answer:
        lines = answer.read().decode().splitlines()
    return float(next(line for line in lines if line.startswith(name + " ")).split()[1])


def doctor(node: Node) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*COMMAND, "doctor", str(node.data)], capture_output=True, text=True, timeout=60)


def test_a_single_flipped_bit_is_corrected(new_node: NewNode) -> None:
    node = new_node()
    flip(played(node, idle_s=0.0), 77)
    assert "a bit has flipped" in doctor(node).stdout
    node.start()
    assert [message.value() for message in read_all(node.bootstrap, "t")] == [b"before", LAST]
    assert metric(node, "longhall_wal_corrected_bits") == 1
    assert metric(node, "longhall_wal_tail_cut_bytes") == 0
    assert "a flipped bit of the write-ahead log was corrected" in node.log_text()


def test_more_flipped_bits_are_reported_as_damage(new_node: NewNode) -> None:
    node = new_node()
    flip(played(node, idle_s=IDLE_S), 77, 500, 1999)
    assert doctor(node).returncode == 1
    node.start()
    assert "a part of the write-ahead log is damaged" in node.log_text()
    assert metric(node, "longhall_wal_tail_cut_bytes") == 0


def test_a_cut_frame_is_reported(new_node: NewNode) -> None:
    """Before the log's trailing frame a torn write cannot be distinguished from rot."""
    node = new_node()
    flip(played(node, idle_s=0.0), 77, 500, 1999)
    node.start()
    assert metric(node, "longhall_wal_tail_cut_bytes") > len(LAST)
    assert "was incomplete and was cut" in node.log_text()

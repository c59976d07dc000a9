"""The doctor on data directories of a node: intact, torn, and damaged."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from longhall.cli.exits import Exit
from soak.node import Node
from tests.cli.conftest import Ended, Run

LARGE_BYTES = 200_000  # Such a batch goes straight to its segment, and the write-ahead log only refers to it.


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    with Node(tmp_path / "data") as running:
        yield running


@pytest.fixture
def lines(tmp_path: Path) -> Path:
    file = tmp_path / "lines"
    file.write_text("".join(f"message {number}\n" for number in range(2000)))
    return file


@pytest.fixture
def large_lines(tmp_path: Path) -> Path:
    file = tmp_path / "large"
    file.write_text("".join("x" * LARGE_BYTES + "\n" for _ in range(5)))
    return file


def produced(run: Run, node: Node, topic: str, file: Path) -> None:
    ended = run("produce", topic, str(file), "--create", "--address", node.bootstrap)
    assert ended.code == 0, ended.err


def examined(run: Run, node: Node, *words: str) -> tuple[Ended, dict[str, object]]:
    ended = run("doctor", str(node.data), "--verify", "-o", "json", *words)
    return ended, json.loads(ended.out)


def flip(file: Path, at: int) -> None:
    with file.open("r+b") as stream:
        stream.seek(at)
        byte = stream.read(1)[0]
        stream.seek(at)
        stream.write(bytes([byte ^ 0x10]))


def segment_with(node: Node, text: bytes) -> Path:
    (found,) = [file for file in node.data.glob("partitions/*/*.log") if text in file.read_bytes()]
    return found


def references_in_log(node: Node) -> int:
    return sum(file.read_bytes().count(b"x" * LARGE_BYTES) for file in node.data.glob("wal/*"))


@pytest.mark.clients
def test_no_damage_after_a_clean_stop_and_a_flipped_bit_is_found(run: Run, node: Node, lines: Path) -> None:
    produced(run, node, "letters", lines)
    assert node.stop() == 0
    ended, report = examined(run, node)
    assert ended.code == 0, ended.err
    assert (report["damaged"], report["findings"]) == (False, [])
    assert report["verified_records"] == 2000
    assert "no damage" in run("doctor", str(node.data)).err

    segment = segment_with(node, b"message 1234")
    flip(segment, segment.read_bytes().index(b"message 1234"))
    ended, report = examined(run, node)
    assert ended.code == Exit.REFUSED
    assert report["damaged"] is True
    findings = report["findings"]
    assert isinstance(findings, list)
    assert findings[0]["severity"] == "damage"
    assert "letters-0" in findings[0]["text"]
    assert "damaged" in ended.err
    assert ended.err.count("\n") == 1
    assert run("doctor", str(node.data)).code == 0  # A look that does not read the messages cannot see it.


@pytest.mark.clients
def test_no_damage_after_a_kill(run: Run, node: Node, lines: Path, large_lines: Path) -> None:
    produced(run, node, "letters", lines)
    produced(run, node, "parcels", large_lines)
    node.kill()
    ended, report = examined(run, node)
    assert ended.code == 0, report["findings"]
    assert report["topics"] == 2
    for file in node.data.glob("wal/*"):  # A torn tail is none either: nobody was promised what is not whole.
        with file.open("r+b") as stream:
            stream.seek(0, 2)
            stream.write(b"LHWF torn")
    assert examined(run, node)[0].code == 0


@pytest.mark.clients
def test_damage_of_a_large_batch_that_only_the_log_refers_to(
    run: Run, node: Node, lines: Path, large_lines: Path
) -> None:
    deadline = time.monotonic() + 60
    through_log = -1
    while through_log < (through_log := references_in_log(node)):  # Until the name of the new segment is durable.
        assert time.monotonic() < deadline, "large batches never went straight to their segment"
        produced(run, node, "parcels", large_lines)
    produced(run, node, "letters", lines)  # So that the parcels are behind the horizon of a later frame.
    node.kill()
    segment = segment_with(node, b"x" * 1000)
    flip(segment, segment.stat().st_size - LARGE_BYTES // 2)
    ended, report = examined(run, node)
    assert ended.code == Exit.REFUSED
    assert "parcels-0" in json.dumps(report["findings"])


@pytest.mark.clients
def test_damage_of_the_log_before_the_horizon(run: Run, node: Node, lines: Path) -> None:
    for _ in range(3):
        produced(run, node, "letters", lines)
    node.kill()
    (wal,) = [file for file in node.data.glob("wal/*") if b"message 1234" in file.read_bytes()]
    flip(wal, wal.read_bytes().index(b"message 1234"))
    ended, report = examined(run, node)
    assert ended.code == Exit.REFUSED
    assert "'wal'" in str(report["findings"])


@pytest.mark.clients
def test_an_unreadable_snapshot_is_damage(run: Run, node: Node, lines: Path) -> None:
    produced(run, node, "letters", lines)
    node.stop()
    flip(next(iter(node.data.glob("shards/0000/*.snapshot"))), 40)
    ended, report = examined(run, node)
    assert ended.code == Exit.REFUSED
    assert "shards/0000" in str(report["findings"])


@pytest.mark.clients
def test_a_running_node_is_reported(run: Run, node: Node, lines: Path) -> None:
    produced(run, node, "letters", lines)
    ended = run("doctor", str(node.data), "--verify")
    assert ended.code == 0
    assert "in use by process" in ended.err


def test_another_directory_is_a_usage_error(run: Run, tmp_path: Path) -> None:
    for directory in (tmp_path, tmp_path / "missing"):
        ended = run("doctor", str(directory))
        assert ended.code == Exit.USAGE
        assert "not a data directory" in ended.err
    assert not (tmp_path / "missing").exists()
    (tmp_path / "longhall.json").write_text("{")
    assert "cannot be understood" in run("doctor", str(tmp_path)).err

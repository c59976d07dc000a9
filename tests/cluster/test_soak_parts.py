"""The comparison of replicas in the cluster soak finds every difference."""

from __future__ import annotations

from pathlib import Path

from longhall.records.batch import build_batch
from longhall.records.record import Record
from soak.cluster_load import KAFKA, Pulse
from soak.replicas import compare


def keep(directory: Path, partition: int, *batches: bytes) -> None:
    place = directory / "partitions" / f"{partition:016x}"
    place.mkdir(parents=True)
    (place / f"{0:020d}.log").write_bytes(b"".join(batches) + bytes(100))


def batch(offset: int, value: bytes) -> bytes:
    return build_batch([Record(offset, 7, None, value)], base_offset=offset, leader_epoch=1)


def test_equal_replicas_have_no_difference(tmp_path: Path) -> None:
    for node in (1, 2):
        keep(tmp_path / str(node), 3, batch(0, b"i1:1"), batch(1, b"i1:2"))
    assert compare({node: tmp_path / str(node) for node in (1, 2)}) == []


def test_different_missing_and_damaged_batches_are_reported(tmp_path: Path) -> None:
    keep(tmp_path / "1", 1, batch(0, b"i1:1"), batch(1, b"i1:2"))
    keep(tmp_path / "2", 1, batch(0, b"i1:1"), batch(1, b"i1:3"))
    keep(tmp_path / "1", 2, batch(0, b"i1:1"), batch(1, b"i1:2"))
    keep(tmp_path / "2", 2, batch(0, b"i1:1"))
    keep(tmp_path / "1", 3, batch(0, b"s1-1"), batch(1, b"s1-2"))
    keep(tmp_path / "2", 3, batch(1, b"s1-2"))  # Of a queue: each node removes settled messages at its own time.
    keep(tmp_path / "1", 4, batch(0, b"s1-1"))
    keep(tmp_path / "2", 4, batch(0, b"s1-1")[:-1] + b"?")
    said = compare({node: tmp_path / str(node) for node in (1, 2)})
    assert [line.split(":")[0] for line in said] == ["node 2", f"{1:016x} at 1", f"{2:016x}"]


def test_the_longest_time_without_an_answer_is_known() -> None:
    pulse = Pulse()
    for _ in range(3):
        pulse.beat(KAFKA)
    beats = pulse.beats(KAFKA)
    assert pulse.longest_gap(KAFKA, beats[0]) == max(beats[1] - beats[0], beats[2] - beats[1])
    assert pulse.longest_gap(KAFKA, beats[2] + 1) == 0

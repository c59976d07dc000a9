"""Reads past the page cache return the same bytes as normal reads, at any position and size."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from longhall.world.real.direct_read import read_direct
from longhall.world.real.disk import RealDisk

DATA = random.Random(1).randbytes(2_500_123)


@pytest.mark.parametrize(
    ("position", "size"),
    [(0, 10), (4095, 2), (1000, 2_000_000), (2_499_000, 99_999), (2_500_123, 5), (3_000_000, 5), (7, 0)],
)
def test_any_part_of_a_file(tmp_path: Path, position: int, size: int) -> None:
    path = tmp_path / "file"
    path.write_bytes(DATA)
    expected = DATA[position : position + size]
    assert read_direct(os.fspath(path), position, size) in (expected, None)
    disk = RealDisk(os.fspath(tmp_path))
    file = disk.open("file")
    assert file.read_from_disk(position, size) == expected
    file.close()
    disk.close()


def test_without_direct_reads_normal_reads_are_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_bytes(DATA)
    monkeypatch.setattr("longhall.world.real.file.read_direct", lambda path, position, size: None)
    disk = RealDisk(os.fspath(tmp_path))
    file = disk.open("file")
    assert file.read_from_disk(5, 1_000_000) == DATA[5:1_000_005]
    file.close()
    disk.close()

"""The overlay disk: reads see the writes, and the disk below does not change."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longhall.cli.overlay_disk import PAGE_BYTES, OverlayDisk, OverlayFile
from longhall.world.real.disk import RealDisk

BELOW = bytes(range(256)) * 600  # More than two pages.

Positions = st.integers(0, 3 * PAGE_BYTES)
Steps = st.lists(
    st.one_of(
        st.tuples(st.just("write"), Positions, st.binary(max_size=200)),
        st.tuples(st.just("truncate"), Positions, st.just(b"")),
    ),
    max_size=12,
)


@given(Steps, Positions, st.integers(0, 2 * PAGE_BYTES))
def test_reads_see_the_writes(steps: list[tuple[str, int, bytes]], position: int, size: int) -> None:
    below = OverlayDisk(RealDisk("/nowhere"))
    base = below.open("base", create=True)
    base.write_at(0, (BELOW,))
    file, model = OverlayFile("x", base), bytearray(BELOW)
    for word, at, data in steps:
        if word == "truncate":
            file.truncate(at)
            model = model[:at].ljust(at, b"\0")
        elif data:
            file.write_at(at, (data,))
            model = model.ljust(at, b"\0")
            model[at : at + len(data)] = data
    assert file.size() == len(model)
    assert file.read_at(position, size) == bytes(model[position : position + size])
    assert base.read_at(0, len(BELOW)) == BELOW


def test_renames_and_removals_stay_in_the_overlay(tmp_path: Path) -> None:
    (tmp_path / "wal").mkdir()
    (tmp_path / "wal" / "one").write_bytes(b"1")
    (tmp_path / "wal" / "two").write_bytes(b"2")
    disk = OverlayDisk(RealDisk(str(tmp_path)))
    disk.remove("wal/one")
    disk.rename("wal/two", "wal/three")
    disk.open("shards/0000/new", create=True).write_at(0, (b"n",))
    assert disk.list("wal") == ["three"]
    assert disk.open("wal/three").read_at(0, 9) == b"2"
    assert disk.list("shards") == ["0000"]
    assert disk.exists("shards/0000")
    assert not disk.exists("wal/one")
    with pytest.raises(FileNotFoundError):
        disk.open("wal/two")
    assert sorted(one.name for one in (tmp_path / "wal").iterdir()) == ["one", "two"]
    assert not (tmp_path / "shards").exists()

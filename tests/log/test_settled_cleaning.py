"""Settled messages are removed from closed segments; all others stay at their offset, byte for byte."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from longhall.log.background_jobs import BACKGROUND_JOBS
from longhall.log.layout import partition_directory, segment_path
from longhall.log.segment_rewrite import DROP, KEEP, OPEN, install_segment
from longhall.log.segment_scan import Damage, scan_segment
from longhall.log.settled_cleaning import Settled
from longhall.records.batch import Record, build_batch, parse_header, read_records
from longhall.world.ports import Disk
from simulation.world import Simulation

BATCHES = st.lists(st.tuples(st.integers(1, 6), st.booleans()), min_size=1, max_size=12)


def edges_of(dead: set[int], end: int) -> list[int]:
    edges: list[int] = []
    for offset in range(end + 1):
        if (offset in dead) != (offset - 1 in dead):
            edges.append(offset)
    return edges


def write(disk: Disk, batches: list[bytes]) -> int:
    disk.make_directory(partition_directory(1))
    file = disk.open(segment_path(1, 0), create=True)
    data = b"".join(batches)
    file.write_at(0, (data,))
    file.close()
    return len(data)


def records_of(disk: Disk, size: int) -> list[Record]:
    file = disk.open(segment_path(1, 0))
    found: list[Record] = []
    for one in scan_segment(file, 0, size):
        assert not isinstance(one, Damage)
        found += read_records(one.batch, 0) if one.header.record_count else []
    file.close()
    return found


@given(BATCHES, st.sets(st.integers(0, 80)), st.integers(0, 2))
def test_exactly_the_settled_messages_are_removed(shape: list[tuple[int, bool]], dead: set[int], gap: int) -> None:
    disk = Simulation(1).host("node").boot(BACKGROUND_JOBS).disk
    batches: list[bytes] = []
    wanted: list[Record] = []
    offset = 0
    for count, compressed in shape:
        rows = [Record(offset + at, 1000 + at, b"k", b"%d" % (offset + at)) for at in range(count)]
        batches.append(build_batch(rows, base_offset=offset, compression=1 if compressed else 0))
        wanted += [row for row in rows if row.offset not in dead]
        offset += count + gap
    dead = {one for one in dead if one < offset}
    size = write(disk, batches)
    arguments: dict[str, object] = {
        "directory": partition_directory(1),
        "segments": [{"base_offset": 0, "size_bytes": size, "settled": edges_of(dead, offset)}],
    }
    result = BACKGROUND_JOBS["free_settled"](disk, arguments)
    changed = result["segments"]
    assert isinstance(changed, list)
    if changed:
        assert install_segment(disk, segment_path(1, 0))
        size = changed[0]["new_size_bytes"]
    found = records_of(disk, size)
    assert [(one.offset, one.value, one.key, one.timestamp_ms) for one in found] == [
        (one.offset, one.value, one.key, one.timestamp_ms) for one in wanted
    ]
    assert BACKGROUND_JOBS["free_settled"](disk, _again(arguments, size))["segments"] == [], (
        "a second run changes nothing"
    )


def _again(arguments: dict[str, object], size: int) -> dict[str, object]:
    segments = arguments["segments"]
    assert isinstance(segments, list)
    return {**arguments, "segments": [{**segments[0], "size_bytes": size}]}


def test_markers_stay_and_damaged_segments_are_not_rewritten() -> None:
    marker = build_batch([Record(5, 0, b"\0\0\0\1", b"\0\0\0\0\0\0")], base_offset=5, control=True, transactional=True)
    keeper = Settled([0, 100])
    assert keeper.fate(parse_header(marker, 0), marker) == KEEP
    plain = build_batch([Record(7, 0, None, b"x"), Record(8, 0, None, b"y")], base_offset=7)
    assert keeper.fate(parse_header(plain, 0), plain) == DROP
    assert Settled([0, 8]).fate(parse_header(plain, 0), plain) == OPEN
    assert Settled([0, 7]).fate(parse_header(plain, 0), plain) == KEEP
    disk = Simulation(1).host("node").boot(BACKGROUND_JOBS).disk
    size = write(disk, [plain[:-1] + b"z"])
    segment = {"base_offset": 0, "size_bytes": size, "settled": [0, 100]}
    result = BACKGROUND_JOBS["free_settled"](disk, {"directory": partition_directory(1), "segments": [segment]})
    assert result == {"segments": [], "damaged": [0]}
    assert [name for name in disk.list(partition_directory(1)) if "cleaned" in name] == []

"""Background jobs over segments: verification, index rebuild, and installation of rewritten segments."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from longhall.errors import Code, LonghallError
from longhall.log.background_jobs import BACKGROUND_JOBS
from longhall.log.index import decode_index
from longhall.records.batch import Record, build_batch, parse_header
from longhall.world.real.disk import RealDisk
from tests.examples import examples
from tests.log.hall import DIRECTORY, read_file, segment_path, write_file, write_segment

BASE = 100


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[RealDisk]:
    disk = RealDisk(str(tmp_path))
    yield disk
    disk.close()


def run(disk: Any, job: str, **arguments: Any) -> dict[str, Any]:
    """Run a job as the janitor does: arguments and result are sent as msgpack."""
    travelled = msgspec.msgpack.decode(msgspec.msgpack.encode(arguments))
    return msgspec.msgpack.decode(msgspec.msgpack.encode(BACKGROUND_JOBS[job](disk, travelled)), type=dict[str, Any])


def batches(count: int, value_bytes: int = 50) -> list[bytes]:
    """Batches of two records each from BASE on."""
    return [
        build_batch(
            [Record(BASE + 2 * n, 1000 + n, b"k%03d" % n, b"\x02" * value_bytes), Record(-1, 900, None, b"x")],
            base_offset=BASE + 2 * n,
            leader_epoch=1,
        )
        for n in range(count)
    ]


def test_an_intact_segment_has_no_damage(disk: RealDisk) -> None:
    parts = batches(10)
    write_segment(disk, BASE, parts)
    assert run(disk, "verify_segment", path=segment_path(BASE)) == {
        "size_bytes": sum(map(len, parts)),
        "next_offset": BASE + 20,
        "max_timestamp_ms": 1009,
        "max_timestamp_offset": BASE + 19,
        "record_count": 20,
        "batch_count": 10,
        "damaged": [],
    }
    assert run(disk, "verify_segment", partition=1, base_offset=BASE)["batch_count"] == 10
    sized = run(disk, "verify_segment", path=segment_path(BASE), size_bytes=sum(map(len, parts[:4])))
    assert (sized["batch_count"], sized["damaged"]) == (4, [])


@pytest.mark.parametrize("at", [0, 5, 8, 9, 11, 16, 17, 21, 26, 40, 60, 61, 90], ids=lambda at: f"byte-{at}")
def test_a_flipped_byte_damages_exactly_one_batch(disk: RealDisk, at: int) -> None:
    """Includes bytes that the checksum does not cover: the offset and the length."""
    parts = batches(10)
    damaged = bytearray(parts[4])
    damaged[at] ^= 0x41
    write_segment(disk, BASE, [*parts[:4], bytes(damaged), *parts[5:]])
    result = run(disk, "verify_segment", path=segment_path(BASE))
    position = sum(map(len, parts[:4]))
    assert result["damaged"] == [[position, len(parts[4]), BASE + 8, BASE + 10]]
    assert result["batch_count"] == 9
    assert result["next_offset"] == BASE + 20


def test_damage_in_the_first_and_last_batch_is_found(disk: RealDisk) -> None:
    parts = batches(3)
    write_segment(disk, BASE, [b"\x00" * len(parts[0]), parts[1], parts[2][:-1]])
    size = len(parts[0])
    assert run(disk, "verify_segment", path=segment_path(BASE))["damaged"] == [
        [0, size, BASE, BASE + 2],
        [2 * size, size - 1, BASE + 4, -1],
    ]


def test_a_message_that_contains_a_batch_is_not_scanned_as_one(disk: RealDisk) -> None:
    inner = build_batch([Record(BASE + 1, 5, b"ghost", b"ghost")], base_offset=BASE + 1)
    outer = bytearray(build_batch([Record(BASE, 5, b"k", inner)], base_offset=BASE))
    outer[-1] ^= 1
    follower = build_batch([Record(BASE + 1, 6, b"k", b"v")], base_offset=BASE + 1)
    write_segment(disk, BASE, [bytes(outer), follower])
    result = run(disk, "verify_segment", path=segment_path(BASE))
    assert result["damaged"] == [[0, len(outer), BASE, BASE + 1]]
    assert result["max_timestamp_ms"] == 6


def test_batches_larger_than_a_chunk_are_read(disk: RealDisk) -> None:
    large = build_batch([Record(BASE, 5, b"k", b"v" * 3_000_000)], base_offset=BASE)
    after = build_batch([Record(BASE + 1, 5, b"k", b"v" * 1_500_000)], base_offset=BASE + 1)
    write_segment(disk, BASE, [large, after])
    result = run(disk, "verify_segment", path=segment_path(BASE))
    assert (result["batch_count"], result["damaged"]) == (2, [])
    flipped = bytearray(large)
    flipped[8] ^= 1  # Its length is wrong, so the next batch must be searched for.
    write_segment(disk, BASE, [bytes(flipped), after])
    assert run(disk, "verify_segment", path=segment_path(BASE))["damaged"] == [[0, len(large), BASE, BASE + 1]]


@given(st.lists(st.tuples(st.integers(0, 1199), st.integers(0, 255)), max_size=6), st.integers(0, 1200))
@settings(max_examples=examples(100))
def test_any_damage_is_reported_and_other_batches_are_found(
    tmp_path_factory: pytest.TempPathFactory, changes: list[tuple[int, int]], size: int
) -> None:
    disk = RealDisk(str(tmp_path_factory.mktemp("hall")))
    data = bytearray(b"".join(batches(8)))
    for at, byte in changes:
        data[at % len(data)] = byte
    write_segment(disk, BASE, [bytes(data[:size])])
    result = run(disk, "verify_segment", path=segment_path(BASE))
    holes = sum(hole[1] for hole in result["damaged"])
    whole = len(data) // 8
    assert result["size_bytes"] == min(size, len(data))
    assert holes + result["batch_count"] * whole == result["size_bytes"]
    for position, hole_bytes, first, hint in result["damaged"]:
        assert 0 <= position < position + hole_bytes <= result["size_bytes"]
        assert hint == -1 or hint >= first
    disk.close()


def test_an_index_is_rebuilt(disk: RealDisk) -> None:
    parts = batches(100)
    write_segment(disk, BASE, parts)
    size = len(parts[0])
    result = run(disk, "rebuild_index", path=segment_path(BASE), interval_bytes=10 * size)
    index, summary = decode_index(read_file(disk, f"{DIRECTORY}/{BASE:020d}.index"))
    assert (summary.size_bytes, summary.next_offset) == (result["size_bytes"], BASE + 200)
    assert (summary.record_count, summary.batch_count) == (200, 100)
    assert (summary.max_timestamp_ms, summary.max_timestamp_offset) == (1099, BASE + 199)
    assert len(index) == 10
    assert index.position_for_offset(2 * 57) == 50 * size
    assert index.position_for_timestamp(1057) == 50 * size
    assert disk.list(DIRECTORY) == [f"{BASE:020d}.index", f"{BASE:020d}.log"]


def test_a_damaged_index_is_replaced(disk: RealDisk) -> None:
    write_segment(disk, BASE, batches(3))
    write_file(disk, f"{DIRECTORY}/{BASE:020d}.index", b"\xff" * 5000)
    run(disk, "rebuild_index", path=segment_path(BASE))
    decode_index(read_file(disk, f"{DIRECTORY}/{BASE:020d}.index"))


def test_an_empty_segment_has_an_index(disk: RealDisk) -> None:
    write_segment(disk, BASE, [])
    result = run(disk, "rebuild_index", path=segment_path(BASE))
    assert (result["size_bytes"], result["next_offset"], result["damaged"]) == (0, BASE, [])
    index, _ = decode_index(read_file(disk, f"{DIRECTORY}/{BASE:020d}.index"))
    assert len(index) == 0


def test_invalid_arguments_are_refused(disk: RealDisk) -> None:
    disk.make_directory("partitions")
    write_file(disk, "partitions/notes.txt", b"")
    with pytest.raises(LonghallError) as caught:
        run(disk, "verify_segment", path="partitions/notes.txt")
    assert caught.value.code is Code.INVALID_REQUEST
    with pytest.raises(LonghallError):
        run(disk, "verify_segment", partition=1)
    with pytest.raises(FileNotFoundError):
        run(disk, "verify_segment", path=segment_path(7))
    with pytest.raises(msgspec.ValidationError):
        run(disk, "verify_segment", path=segment_path(7), mispelt=1)


def same_key_batches(count: int) -> list[bytes]:
    """The same key in many batches."""
    return [build_batch([Record(BASE + n, 1, b"k", b"v")], base_offset=BASE + n) for n in range(count)]


class CrashingDisk:
    """A disk that fails after a number of changes to the directory."""

    def __init__(self, disk: RealDisk, changes: int) -> None:
        self._disk = disk
        self._changes = changes

    def __getattr__(self, name: str) -> Any:
        if name in ("rename", "remove", "sync_directory"):
            if self._changes == 0:
                raise KeyboardInterrupt
            self._changes -= 1
        return getattr(self._disk, name)


@pytest.mark.parametrize("changes", range(8))
def test_an_installation_survives_a_crash_at_any_step(disk: RealDisk, changes: int) -> None:
    segments = [
        write_segment(
            disk, BASE, [build_batch([Record(BASE + n, 1, b"k", b"v")], base_offset=BASE + n) for n in range(9)]
        )
    ]
    run(disk, "rebuild_index", path=segment_path(BASE))
    old = read_file(disk, segment_path(BASE))
    arguments = {"directory": DIRECTORY, "segments": segments, "dirty_from": 0, "until_offset": BASE + 9}
    outcome = run(disk, "compact_segments", now_ms=5, delete_retention_ms=5, **arguments)
    assert [segment["base_offset"] for segment in outcome["segments"]] == [BASE]
    assert read_file(disk, segment_path(BASE)) == old, "readers see nothing before the installation"
    new = read_file(disk, segment_path(BASE) + ".cleaned")
    assert len(new) == outcome["segments"][0]["new_size_bytes"] == len(old) // 9
    try:
        run(CrashingDisk(disk, changes), "install_segments", directory=DIRECTORY, segments=[BASE])
    except KeyboardInterrupt:
        pass
    now = read_file(disk, segment_path(BASE))
    assert now in (old, new)
    index_path = f"{DIRECTORY}/{BASE:020d}.index"
    if disk.exists(index_path):
        index, summary = decode_index(read_file(disk, index_path))
        assert summary.size_bytes == len(now)
        assert parse_header(now, index.position_for_offset(8)).base_offset <= BASE + 8
    installed = run(disk, "install_segments", directory=DIRECTORY, segments=[BASE])["installed"]
    assert installed == ([BASE] if now == old else [])
    assert read_file(disk, segment_path(BASE)) == new
    run(disk, "discard_rewritten", directory=DIRECTORY)
    assert not [name for name in disk.list(DIRECTORY) if name.endswith(".cleaned")]


def test_rewritten_segments_can_be_discarded_before_installation(disk: RealDisk) -> None:
    segments = [
        write_segment(
            disk, BASE, [build_batch([Record(BASE + n, 1, b"k", b"v")], base_offset=BASE + n) for n in range(3)]
        )
    ]
    run(disk, "compact_segments", directory=DIRECTORY, segments=segments, dirty_from=0, until_offset=BASE + 3, now_ms=5,
        delete_retention_ms=5)  # fmt: skip
    assert run(disk, "discard_rewritten", directory=DIRECTORY) == {"removed": 2}
    assert disk.list(DIRECTORY) == [f"{BASE:020d}.log"]
    assert run(disk, "install_segments", directory=DIRECTORY, segments=[BASE]) == {"installed": []}

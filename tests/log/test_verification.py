"""The background jobs of the scrub: intact data passes, every flipped bit is found, and slices cover everything."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from longhall.log.background_jobs import BACKGROUND_JOBS, rebuild_index
from longhall.log.snapshots import write_snapshot
from longhall.world.ports import File
from longhall.world.real.disk import RealDisk
from tests.log.hall import read_file, segment_path, write_file, write_segment
from tests.log.test_background_jobs import BASE, batches
from tests.log.waldesk import WalDesk

COUNT = 12  # Batches, of two records each.
PARTS = batches(COUNT)
WHOLE = b"".join(PARTS)
SIZE = len(PARTS[0])
NEXT = BASE + 2 * COUNT
PATH = segment_path(BASE)
EPOCH_AT = range(12, 16)  # Within a batch: neither a checksum nor a neighbour verifies it.


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[RealDisk]:
    made = RealDisk(str(tmp_path))
    yield made
    made.close()


def verify(disk: Any, job: str, **arguments: object) -> Any:
    return BACKGROUND_JOBS[job](disk, arguments)


def slices(disk: RealDisk, bytes_max: int) -> tuple[int, int]:
    """Verify a segment slice by slice: the number of slices, and the first damaged offset or -1."""
    position = count = 0
    expected = BASE
    while position < len(WHOLE):
        rest = {"position": position, "expected": expected, "bytes_max": bytes_max}
        found = verify(disk, "verify_slice", path=PATH, size_bytes=len(WHOLE), next_offset=NEXT, **rest)
        count += 1
        if found["damaged"] >= 0:
            return count, found["damaged"]
        position, expected = found["position"], found["expected"]
    assert expected == NEXT
    return count, -1


def test_slices_find_a_flipped_bit_at_any_position(disk: RealDisk) -> None:
    write_segment(disk, BASE, PARTS)
    assert slices(disk, 1) == (COUNT, -1)
    assert slices(disk, 1 << 20) == (1, -1)
    for at in [at for at in range(0, len(WHOLE), 7) if at % SIZE not in EPOCH_AT]:
        flipped = bytearray(WHOLE)
        flipped[at] ^= 4
        write_file(disk, PATH, bytes(flipped))
        assert slices(disk, 300)[1] >= 0, at


def test_a_short_or_missing_segment_is_damaged(disk: RealDisk) -> None:
    write_segment(disk, BASE, PARTS[:-1])
    assert slices(disk, 300)[1] == NEXT - 2
    disk.remove(PATH)
    assert slices(disk, 300) == (1, BASE)


def test_a_damaged_index_is_reported(disk: RealDisk) -> None:
    _, size = write_segment(disk, BASE, PARTS)
    missing = {"covers": -1, "size_bytes": -1, "segment_bytes": size}
    assert verify(disk, "verify_index", path=PATH) == missing
    rebuild_index(disk, {"path": PATH})
    assert verify(disk, "verify_index", path=PATH)["covers"] == size
    path = PATH.removesuffix(".log") + ".index"
    flipped = bytearray(read_file(disk, path))
    flipped[60] ^= 1
    write_file(disk, path, bytes(flipped))
    assert verify(disk, "verify_index", path=PATH)["covers"] == -1


def test_damaged_snapshots_are_reported(disk: RealDisk) -> None:
    for shard in range(3):
        write_snapshot(disk, shard, 10, b"state" * 10)
    assert verify(disk, "verify_snapshots", shards=[0, 1, 2, 3])["damaged"] == []
    path = f"shards/0001/{10:020d}.snapshot"
    flipped = bytearray(read_file(disk, path))
    flipped[30] ^= 1
    write_file(disk, path, bytes(flipped))
    assert verify(disk, "verify_snapshots", shards=[0, 1, 2, 3])["damaged"] == [1]


def test_frames_are_verified_up_to_the_durable_end() -> None:
    desk = WalDesk()
    for _ in range(6):
        desk.put(400)
    desk.append(50)
    desk.write()  # Written and not synced.
    ((path, start, until),) = desk.wal.kept_files()

    def damaged(bytes_max: int) -> int:
        position = start
        while position < until:
            part = {"path": path, "start": start, "position": position, "until": until, "bytes_max": bytes_max}
            found = verify(desk.disk, "verify_log", **part)
            if found["damaged"] >= 0:
                return int(found["damaged"])
            position = found["position"]
        return -1

    assert (damaged(1), damaged(1 << 20)) == (-1, -1)
    desk.current().content[until + 60] ^= 1
    assert damaged(1000) == -1
    for place, expected in ((desk.positions[3] + 100, desk.positions[3]), (10, 0)):
        desk.current().content[place] ^= 1
        assert (damaged(1), damaged(1 << 20)) == (expected, expected)
        desk.current().content[place] ^= 1


class DecayedFile:
    """A segment that is intact in memory and has a flipped bit on the disk."""

    def __init__(self, file: File, decayed: bytes) -> None:
        self.file = file
        self.decayed: bytes | None = decayed
        self.read_at, self.size, self.close = file.read_at, file.size, file.close

    def read_from_disk(self, position: int, size: int) -> bytes:
        return self.read_at(position, size) if self.decayed is None else self.decayed[position : position + size]

    def write_at(self, position: int, buffers: list[bytes]) -> int:
        self.decayed = None
        return self.file.write_at(position, buffers)


class DecayedDisk:
    def __init__(self, disk: RealDisk, decayed: bytes) -> None:
        self.file = DecayedFile(disk.open(PATH), decayed)
        self.synced = False

    def exists(self, path: str) -> bool:
        return True

    def open(self, path: str) -> DecayedFile:
        return self.file

    def sync_now(self, file: DecayedFile) -> None:
        self.synced = file.decayed is None


def test_bytes_that_memory_has_are_written_to_the_disk_again(disk: RealDisk) -> None:
    """A bit has flipped below a cached page: only a read past the page cache sees it."""
    write_segment(disk, BASE, PARTS)
    flipped = bytearray(WHOLE)
    flipped[300] ^= 8
    segment: dict[str, object] = {"path": PATH, "size_bytes": len(WHOLE), "next_offset": NEXT}
    decayed = DecayedDisk(disk, bytes(flipped))
    assert len(verify(decayed, "find_damage", segments=[segment])["damaged"][0]) == 1
    decayed = DecayedDisk(disk, bytes(flipped))
    assert verify(decayed, "restore_from_memory", **segment) == {"damaged": []}
    assert decayed.synced
    assert read_file(disk, PATH) == WHOLE

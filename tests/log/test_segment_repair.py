"""Damage in a segment is found at any position, and repaired in place byte for byte or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from longhall.log.index import decode_index
from longhall.log.segment_repair import valid_headers
from longhall.world.real.disk import RealDisk
from tests.examples import examples
from tests.log.hall import read_file, segment_path, write_file, write_segment
from tests.log.test_background_jobs import BASE, batches, run

PARTS = batches(10)
WHOLE = b"".join(PARTS)
SIZE = len(PARTS[0])
NEXT = BASE + 20
PATH = segment_path(BASE)
EPOCH_AT = range(12, 16)  # Within a batch: neither a checksum nor a neighbour verifies it.


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[RealDisk]:
    disk = RealDisk(str(tmp_path))
    write_segment(disk, BASE, PARTS)
    yield disk
    disk.close()


def damage_in(disk: RealDisk, **more: Any) -> list[list[int]]:
    one = {"path": PATH, "size_bytes": len(WHOLE), "next_offset": NEXT}
    found: list[list[int]] = run(disk, "find_damage", segments=[one], **more)["damaged"][0]
    return found


def repair(disk: RealDisk, *patches: tuple[list[int], bytes]) -> list[bool]:
    segment = {"path": PATH, "size_bytes": len(WHOLE), "next_offset": NEXT}
    mended: list[bool] = run(disk, "mend_segment", segment=segment, patches=patches)["mended"]
    return mended


def flip(disk: RealDisk, position: int, bits: int = 1) -> None:
    data = bytearray(read_file(disk, PATH))
    data[position] ^= bits
    write_file(disk, PATH, bytes(data))


def original_bytes(stretch: list[int]) -> bytes:
    """The original bytes of the stretch."""
    return WHOLE[stretch[0] : stretch[0] + stretch[1]]


def test_an_intact_segment_has_no_damage_and_gets_an_index(disk: RealDisk) -> None:
    assert damage_in(disk, index=True) == []
    index, summary = decode_index(read_file(disk, PATH.removesuffix(".log") + ".index"))
    assert (summary.size_bytes, summary.next_offset, summary.batch_count) == (len(WHOLE), NEXT, 10)
    assert index.last_position() == 0


@given(st.lists(st.tuples(st.integers(0, len(WHOLE) - 1), st.integers(0, 7)), min_size=1, max_size=4))
@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_every_flipped_bit_is_found_and_repaired(disk: RealDisk, flips: list[tuple[int, int]]) -> None:
    write_file(disk, PATH, WHOLE)
    for position, bit in flips:
        flip(disk, position, 1 << bit)
    assert all(repair(disk, *[(stretch, original_bytes(stretch)) for stretch in damage_in(disk)]))
    left = read_file(disk, PATH)
    assert [at for at in range(len(WHOLE)) if left[at] != WHOLE[at] and at % SIZE not in EPOCH_AT] == []
    assert damage_in(disk) == []


@pytest.mark.parametrize("left", [0, 3, SIZE, 5 * SIZE + 7, len(WHOLE) - 1])
def test_a_truncated_file_is_restored(disk: RealDisk, left: int) -> None:
    write_file(disk, PATH, WHOLE[:left])
    (stretch,) = damage_in(disk)
    assert stretch[0] + stretch[1] == len(WHOLE)
    assert repair(disk, (stretch, original_bytes(stretch))) == [True]
    assert read_file(disk, PATH) == WHOLE


def test_a_missing_segment_is_damaged_as_a_whole(disk: RealDisk) -> None:
    disk.remove(PATH)
    assert damage_in(disk) == [[0, len(WHOLE), BASE, NEXT]]


def test_the_last_batch_must_not_claim_offsets_after_the_segment(disk: RealDisk) -> None:
    flip(disk, 9 * SIZE + 7)  # Its own offset, which no successor contradicts.
    (stretch,) = damage_in(disk)
    assert stretch == [9 * SIZE, SIZE, BASE + 18, NEXT]
    assert repair(disk, (stretch, PARTS[9])) == [True]
    assert read_file(disk, PATH) == WHOLE


def test_only_matching_batches_are_written(disk: RealDisk) -> None:
    flip(disk, 3 * SIZE + 70)
    damaged = read_file(disk, PATH)
    (stretch,) = damage_in(disk)
    torn = bytearray(PARTS[3])
    torn[70] ^= 4
    for data in (b"", PARTS[4], PARTS[3][:-1], PARTS[3] + b"x", PARTS[3] + PARTS[4], bytes(torn)):
        assert repair(disk, (stretch, data)) == [False]
        assert read_file(disk, PATH) == damaged
    position, size, first, behind = stretch
    for wrong in ([position + 1, size, first, behind], [4 * SIZE, SIZE, BASE + 8, BASE + 10]):
        assert repair(disk, (wrong, original_bytes(wrong))) == [False]  # It begins elsewhere, or is not damaged.
        assert read_file(disk, PATH) == damaged
    assert repair(disk, (stretch, PARTS[4]), (stretch, PARTS[3])) == [True, True]
    assert read_file(disk, PATH) == WHOLE


def test_batches_are_returned_only_if_valid_and_of_that_size(disk: RealDisk) -> None:
    def stretch(first: int, behind: int, size: int, path: str = PATH) -> bytes:
        found = run(disk, "read_stretch", path=path, first=first, behind=behind, size_bytes=size)["data"]
        assert isinstance(found, bytes)
        return found

    assert stretch(BASE + 2, BASE + 6, 2 * SIZE) == PARTS[1] + PARTS[2]
    assert stretch(BASE + 2, BASE + 6, 2 * SIZE + 1) == b""
    assert stretch(BASE + 2, BASE + 6, 2 * SIZE, segment_path(7)) == b""
    flip(disk, 2 * SIZE + 70)
    assert stretch(BASE + 2, BASE + 6, 2 * SIZE) == b""
    assert stretch(BASE + 2, BASE + 4, SIZE) == PARTS[1]


def test_headers_of_batches_with_other_offsets_are_none() -> None:
    assert [header.base_offset for header in valid_headers(WHOLE, BASE, NEXT) or []] == [
        BASE + 2 * n for n in range(10)
    ]
    assert valid_headers(b"", BASE, NEXT) == []
    assert valid_headers(WHOLE, BASE + 1, NEXT) is None
    assert valid_headers(WHOLE, BASE, NEXT - 1) is None
    assert valid_headers(PARTS[1] + PARTS[0], BASE, NEXT) is None
    assert valid_headers(WHOLE[:-1], BASE, NEXT) is None

"""Key compaction: a reader's table never changes, dead records are removed, and recovery finds what it needs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from longhall.log.background_jobs import BACKGROUND_JOBS
from longhall.records.batch import Record, assemble, build_batch, read_records
from longhall.records.control import build_marker
from longhall.world.real.disk import RealDisk
from tests.examples import examples
from tests.log.hall import (
    DIRECTORY,
    batches_of,
    committed_records,
    install_all,
    last_sequences,
    latest,
    open_transactions,
    read_file,
    segment_path,
    write_segment,
)

DAY_MS = 86_400_000
Segments = list[tuple[int, int]]


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[RealDisk]:
    disk = RealDisk(str(tmp_path))
    yield disk
    disk.close()


def one(offset: int, key: bytes | None, value: bytes | None, **more: Any) -> bytes:
    return build_batch([Record(offset, 1000 + offset, key, value)], base_offset=offset, **more)


def compact(disk: RealDisk, segments: Segments, until: int, now_ms: int = 0, **more: Any) -> dict[str, Any]:
    arguments: dict[str, Any] = {
        "directory": DIRECTORY,
        "segments": segments,
        "dirty_from": 0,
        "until_offset": until,
        "now_ms": now_ms,
        "delete_retention_ms": DAY_MS,
        **more,
    }
    return BACKGROUND_JOBS["compact_segments"](disk, arguments)


def keys_at(disk: RealDisk, bases: list[int]) -> list[tuple[int, bytes | None]]:
    return [(record.offset, record.key) for record in committed_records(disk, bases)]


def test_the_last_record_of_each_key_stays_at_its_offset(disk: RealDisk) -> None:
    first = write_segment(disk, 0, [one(0, b"a", b"1"), one(1, b"b", b"1"), one(2, b"a", b"2")])
    second = write_segment(
        disk, 3, [one(3, b"c", b"1"), one(4, b"a", b"3"), one(5, None, b"no key"), one(6, b"c", b"2")]
    )
    outcome = compact(disk, [first, second], 7)
    assert outcome["cleaned_until"] == 7
    install_all(disk, [first, second])
    assert keys_at(disk, [0, 3]) == [(1, b"b"), (4, b"a"), (6, b"c")]
    # The segment still shows its end, although its last record is removed.
    assert batches_of(disk, 0)[-1][0].next_offset == 3


def test_untouched_batches_are_copied_byte_for_byte(disk: RealDisk) -> None:
    kept = [
        build_batch([Record(0, 5, b"a", b"1"), Record(1, 6, b"b", b"1")], compression=codec, leader_epoch=3)
        for codec in range(5)
    ]
    for codec, batch in enumerate(kept):
        moved = build_batch([Record(2, 5, b"x", b"0"), Record(3, 5, b"x", b"1")], base_offset=2, compression=codec)
        segments = [write_segment(disk, 0, [batch, moved])]
        compact(disk, segments, 4)
        install_all(disk, segments)
        (_, first), (header, second) = batches_of(disk, 0)
        assert first == batch
        assert header.compression == codec
        assert (header.base_offset, header.last_offset, header.record_count) == (2, 3, 1)
        assert [record.offset for record in read_records(second, 0)] == [3]


def test_nothing_changes_when_nothing_is_dead(disk: RealDisk) -> None:
    segments = [write_segment(disk, 0, [one(0, b"a", b"1"), one(1, b"b", b"1")])]
    assert compact(disk, segments, 2)["segments"] == []
    assert disk.list(DIRECTORY) == [f"{0:020d}.log"]


def test_batches_at_or_above_the_limit_do_not_change(disk: RealDisk) -> None:
    segments = [write_segment(disk, 0, [one(n, b"a", b"%d" % n) for n in range(6)])]
    assert compact(disk, segments, 3)["cleaned_until"] == 3
    install_all(disk, segments)
    assert [record.offset for record in committed_records(disk, [0])] == [2, 3, 4, 5]


def test_tombstones_stay_until_their_delete_horizon(disk: RealDisk) -> None:
    segments = [write_segment(disk, 0, [one(0, b"a", b"1"), one(1, b"a", None), one(2, b"b", b"1")])]
    compact(disk, segments, 3, now_ms=10)
    segments = install_all(disk, segments)
    assert keys_at(disk, [0]) == [(1, b"a"), (2, b"b")]
    header, batch = batches_of(disk, 0)[0]
    assert header.has_delete_horizon
    assert header.base_timestamp_ms == 10 + DAY_MS
    assert read_records(batch, 0)[0].timestamp_ms == 1001, "readers see the record's own time"
    assert compact(disk, segments, 3, now_ms=9 + DAY_MS)["segments"] == []
    compact(disk, segments, 3, now_ms=10 + DAY_MS)
    install_all(disk, segments)
    assert keys_at(disk, [0]) == [(2, b"b")]


def test_a_tombstone_removes_a_record_of_an_earlier_pass(disk: RealDisk) -> None:
    first = write_segment(disk, 0, [one(0, b"a", b"1"), one(1, b"b", b"1")])
    compact(disk, [first], 2)
    second = write_segment(disk, 2, [one(2, b"a", None)])
    compact(disk, [first, second], 3, dirty_from=2)
    install_all(disk, [first, second])
    assert keys_at(disk, [0, 2]) == [(1, b"b"), (2, b"a")]


def test_log_append_times_do_not_change(disk: RealDisk) -> None:
    stamped = build_batch(
        [Record(0, 7, b"a", b"1"), Record(1, 7, b"b", b"1")], log_append_time=True, max_timestamp_ms=7777
    )
    segments = [write_segment(disk, 0, [stamped, one(2, b"a", b"2")])]
    compact(disk, segments, 3)
    install_all(disk, segments)
    assert [(r.offset, r.timestamp_ms) for r in committed_records(disk, [0])] == [(1, 7777), (2, 1002)]


def test_aborted_records_are_removed_and_do_not_hide_committed_ones(disk: RealDisk) -> None:
    transactional = {"producer_id": 9, "producer_epoch": 0, "transactional": True}
    segments = [
        write_segment(
            disk,
            0,
            [
                one(0, b"a", b"kept"),
                one(1, b"a", b"aborted", base_sequence=0, **transactional),
                build_marker(False, 9, 0, 1, 50, base_offset=2),
                one(3, b"b", b"old", base_sequence=1, **transactional),
                build_marker(True, 9, 0, 1, 50, base_offset=4),
                one(5, b"b", b"new", base_sequence=2, **transactional),
                build_marker(True, 9, 0, 1, 50, base_offset=6),
            ],
        )
    ]
    aborted = [(9, 1, 2)]
    compact(disk, segments, 7, aborted=aborted)
    segments = install_all(disk, segments)
    assert [(r.offset, r.value) for r in committed_records(disk, [0], aborted)] == [(0, b"kept"), (5, b"new")]
    assert open_transactions(disk, [0]) == set()
    markers = [header.base_offset for header, _ in batches_of(disk, 0) if header.is_control]
    assert markers == [2, 4, 6], "readers may still be inside these transactions"

    # Markers of removed transactions get a delete horizon and are removed after it; the last one stays.
    compact(disk, segments, 7, now_ms=1, aborted=aborted)
    segments = install_all(disk, segments)
    horizons = {header.base_offset: header.has_delete_horizon for header, _ in batches_of(disk, 0)}
    assert horizons == {0: False, 2: True, 4: True, 5: False, 6: False}
    compact(disk, segments, 7, now_ms=1 + DAY_MS, aborted=aborted)
    install_all(disk, segments)
    assert [header.base_offset for header, _ in batches_of(disk, 0)] == [0, 5, 6]
    assert open_transactions(disk, [0]) == set()


def test_the_last_batch_of_a_producer_stays_as_a_header(disk: RealDisk) -> None:
    producer = {"producer_id": 4, "producer_epoch": 2}
    segments = [
        write_segment(
            disk,
            0,
            [
                one(0, b"a", b"1", base_sequence=0, **producer),
                one(1, b"a", b"2", base_sequence=1, **producer),
                one(2, b"a", b"3"),
            ],
        )
    ]
    before = last_sequences(disk, [0])
    compact(disk, segments, 3)
    segments = install_all(disk, segments)
    assert [(h.base_offset, h.record_count) for h, _ in batches_of(disk, 0)] == [(1, 0), (2, 1)]
    assert last_sequences(disk, [0]) == before == {4: (2, 1)}
    assert compact(disk, segments, 3)["segments"] == []
    # This producer is no longer active.
    compact(disk, segments, 3, producers=[5])
    install_all(disk, segments)
    assert [h.base_offset for h, _ in batches_of(disk, 0)] == [2]


def test_keys_that_exceed_the_memory_are_cleaned_in_several_passes(disk: RealDisk) -> None:
    parts = [one(n, b"key-%d" % (n % 1000), b"%d" % n) for n in range(3000)]
    segments = [write_segment(disk, 0, parts)]
    before = latest(committed_records(disk, [0]))
    outcome = compact(disk, segments, 3000, key_memory_bytes_max=1)
    assert outcome["cleaned_until"] == 768
    dirty_from = 0
    for _ in range(10):
        outcome = compact(disk, segments, 3000, dirty_from=dirty_from, key_memory_bytes_max=1)
        segments = install_all(disk, segments)
        assert latest(committed_records(disk, [0])) == before
        dirty_from = outcome["cleaned_until"]
        if dirty_from == 3000:
            break
    assert dirty_from == 3000
    assert len(committed_records(disk, [0])) == 1000


def test_a_damaged_segment_is_not_rewritten(disk: RealDisk) -> None:
    parts = [one(n, b"a", b"%d" % n) for n in range(3)]
    damaged = bytearray(parts[1])
    damaged[-1] ^= 1
    first = write_segment(disk, 0, [parts[0], bytes(damaged), parts[2]])
    second = write_segment(disk, 3, [one(3, b"b", b"1"), one(4, b"b", b"2")])
    before = read_file(disk, segment_path(0))
    outcome = compact(disk, [first, second], 5)
    assert outcome["damaged"] == [0]
    assert [segment["base_offset"] for segment in outcome["segments"]] == [3]
    install_all(disk, [first, second])
    assert read_file(disk, segment_path(0)) == before


def test_a_batch_with_malformed_records_is_copied(disk: RealDisk) -> None:
    batch = build_batch([Record(0, 0, b"a", b"1"), Record(1, 0, b"a", b"1")])
    garbled = assemble(0, 0, batch[21:61], b"\xff" * (len(batch) - 61))
    segments = [write_segment(disk, 0, [garbled, one(2, b"a", b"2")])]
    assert compact(disk, segments, 3)["segments"] == []


@st.composite
def logs(draw: st.DrawFn) -> tuple[list[list[tuple[int, bytes]]], list[tuple[int, int, int]], int]:
    """Segments of batches with plain, idempotent and transactional producers; aborted ranges; the end."""
    offset = 0
    sequences = {1: 0, 2: 0, 3: 0}
    open_since: dict[int, int] = {}
    aborted: list[tuple[int, int, int]] = []
    segments: list[list[tuple[int, bytes]]] = [[]]
    for _ in range(draw(st.integers(1, 30))):
        action = draw(st.sampled_from(["plain", "plain", "idempotent", "send", "send", "end", "roll"]))
        if action == "roll" and segments[-1]:
            segments.append([])
            continue
        producer = draw(st.sampled_from([2, 3]))
        if action == "end":
            if producer not in open_since:
                continue
            commit = draw(st.booleans())
            if not commit:
                aborted.append((producer, open_since[producer], offset))
            del open_since[producer]
            segments[-1].append((offset, build_marker(commit, producer, 0, 0, 50, base_offset=offset)))
            offset += 1
            continue
        count = draw(st.integers(1, 3))
        records = [
            Record(offset + n, draw(st.integers(0, 99)), draw(st.sampled_from([b"a", b"b", b"c"])),
                   draw(st.none() | st.binary(max_size=3)))
            for n in range(count)
        ]  # fmt: skip
        numbers: dict[str, Any] = {}
        if action in ("idempotent", "send"):
            producer = 1 if action == "idempotent" else producer
            numbers = {"producer_id": producer, "producer_epoch": 0, "base_sequence": sequences[producer]}
            sequences[producer] += count
            if action == "send":
                numbers["transactional"] = True
                open_since.setdefault(producer, offset)
        codec = draw(st.integers(0, 4))
        segments[-1].append((offset, build_batch(records, base_offset=offset, compression=codec, **numbers)))
        offset += count
    until = min([offset, *open_since.values()])
    return [segment for segment in segments if segment], aborted, until


@given(logs(), st.lists(st.integers(0, 2 * DAY_MS), min_size=1, max_size=4))
@settings(max_examples=examples(40), deadline=None)
def test_compaction_does_not_change_what_readers_and_recovery_see(
    tmp_path_factory: pytest.TempPathFactory,
    log: tuple[list[list[tuple[int, bytes]]], list[tuple[int, int, int]], int],
    pauses: list[int],
) -> None:
    parts, aborted, until = log
    disk = RealDisk(str(tmp_path_factory.mktemp("hall")))
    bases = [segment[0][0] for segment in parts]
    segments = [write_segment(disk, segment[0][0], [batch for _, batch in segment]) for segment in parts]
    before = committed_records(disk, bases, aborted)
    open_before, sequences_before = open_transactions(disk, bases), last_sequences(disk, bases)
    originals = {record.offset: record for record in before}
    now_ms = 0
    for number, pause in enumerate(pauses):
        now_ms += pause
        compact(disk, segments, until, now_ms, aborted=aborted, dirty_from=0 if number % 2 == 0 else until)
        segments = install_all(disk, segments)
        after = committed_records(disk, bases, aborted)
        assert latest(after) == latest(before)
        assert [r.offset for r in after] == sorted({r.offset for r in after})
        assert all(originals[record.offset] == record for record in after)
        assert [r for r in after if r.offset >= until] == [r for r in before if r.offset >= until]
        assert open_transactions(disk, bases) == open_before
        assert last_sequences(disk, bases) == sequences_before
    below = [record.key for record in after if record.offset < until]
    assert len(below) == len(set(below)), "one record per key"
    disk.close()

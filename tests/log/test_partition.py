"""The log of one partition: appending, reading, trimming, retention, damage and replay."""

from __future__ import annotations

import errno

import pytest

from longhall.errors import Code
from longhall.log.files import OpenFiles
from longhall.log.frames import STARTS_SEGMENT
from longhall.log.layout import index_path, segment_path
from longhall.log.partition import RELATIVE_OFFSET_MAX, PartitionLog
from longhall.log.segment import INDEX_INTERVAL_BYTES
from longhall.log.segment_reads import Supplied
from longhall.records.batch import Record, build_batch, parse_header
from tests.log.partitiondesk import (
    PARTITION,
    SEGMENT_MS,
    append,
    batch_at,
    bytes_of,
    content,
    fill,
    new_host,
    open_log,
    read,
)


def test_a_read_at_any_offset_and_size_returns_at_least_one_whole_batch() -> None:
    host = new_host()
    log = open_log(host)
    batches: list[bytes] = []
    for number in range(12):
        batches.append(batch_at(log.next_offset, 50 + 400 * (number % 3), records=1 + number % 4))
        append(log, batches[-1], direct=number % 2 == 0)
    headers = [parse_header(batch, 0) for batch in batches]
    sizes = sorted({0, 1, *[len(batch) + more for batch in batches for more in (-1, 0, 1)], 2_000, 100_000})
    for offset in range(log.next_offset):
        first = next(at for at, header in enumerate(headers) if header.next_offset > offset)
        for bytes_max in sizes:
            data = bytes_of(read(log, offset, bytes_max))
            expected = b"".join(batches[first:])
            assert data
            assert expected.startswith(data)
            assert len(data) == len(batches[first]) or len(data) <= bytes_max
    assert read(log, log.next_offset).size_bytes == 0
    assert read(log, log.next_offset + 1).code is Code.OFFSET_OUT_OF_RANGE


def test_reads_end_before_the_limit() -> None:
    log = open_log(new_host())
    batches = fill(log, 30)
    for limit in range(31):
        for offset in (0, 5, 29):
            data = bytes_of(read(log, offset, limit=limit))
            expected = b"".join(batches[offset:limit])
            assert expected.startswith(data)
            assert bool(data) == (offset < limit)


def test_a_segment_is_closed_by_size_by_age_and_by_the_span_of_its_offsets() -> None:
    log = open_log(new_host())
    for _ in range(10):
        append(log, batch_at(log.next_offset, 900))
    assert [segment.base_offset for segment in log.segments] == [0, 4, 8]
    flags, _ = append(log, batch_at(log.next_offset, 10), now_ms=SEGMENT_MS + 1)
    assert flags == STARTS_SEGMENT
    assert len(log.segments) == 4
    base = log.segments[-1].base_offset
    rows = [Record(base + 1, 1, None, b"v"), Record(base + RELATIVE_OFFSET_MAX + 1, 1, None, b"v")]
    flags, _ = append(log, build_batch(rows, base_offset=base + 1), direct=True, now_ms=SEGMENT_MS + 1)
    assert flags == STARTS_SEGMENT


def test_a_read_goes_on_from_the_file_into_memory() -> None:
    """Clients expect one reply with everything below their bound, wherever the node keeps it."""
    log = open_log(new_host())
    batches = fill(log, 4)
    log.flush()
    batches += fill(log, 3)
    assert bytes_of(read(log, 0)) == b"".join(batches)
    assert bytes_of(read(log, 2, limit=6)) == b"".join(batches[2:6])
    size = len(batches[0])
    assert bytes_of(read(log, 0, 5 * size)) == b"".join(batches[:5])
    assert bytes_of(read(log, 0, 5 * size - 1)) == b"".join(batches[:4])


def test_cold_data_and_cold_indexes_are_requested_and_then_read() -> None:
    host = new_host()
    log = open_log(host)
    batches = fill(log, 60)
    log.flush()
    again = open_log(host)
    again.restore(log.snapshot())
    host.faults.cold_read_chance = 1.0
    asked = again.read(0, 100, 60)
    assert asked.cold is not None
    for offset in range(60):
        assert bytes_of(read(again, offset, 1)) == batches[offset]


def test_bytes_that_were_read_before_a_file_was_replaced_are_read_again() -> None:
    host = new_host()
    log = open_log(host)
    fill(log, 60)
    log.flush()
    again = open_log(host)
    again.restore(log.snapshot())
    read(again, 0)  # Its index is in memory now.
    host.faults.cold_read_chance = 1.0
    cold = again.read(0, 100, 60).cold
    assert cold is not None
    supplied = Supplied(cold.path, cold.position, bytes(cold.size), version=cold.version)
    assert again.read(0, 100, 60, supplied).code is Code.STORAGE_DAMAGED  # These bytes are used, and they are wrong.
    again.mended(0)
    assert again.read(0, 100, 60, supplied).code is None


@pytest.mark.parametrize("spoil", ["missing", "torn", "flipped", "newer", "of another size"])
def test_an_unusable_index_is_rebuilt(spoil: str) -> None:
    host = new_host()
    log = open_log(host)
    batches = fill(log, 60)
    log.flush()
    numbers = log.snapshot()
    disk = log._files.disk
    for segment in log.segments[:-1]:
        path = index_path(PARTITION, segment.base_offset)
        if spoil == "missing":
            disk.remove(path)
            continue
        file = disk.open(path)
        if spoil == "torn":
            file.truncate(30)
        elif spoil == "flipped":
            file.write_at(20, [b"\x99"])
        elif spoil == "newer":
            file.write_at(4, [b"\x09"])
        else:
            file.truncate(0)
            other = disk.open(index_path(PARTITION, log.segments[-2].base_offset))
            file.write_at(0, [other.read_at(0, other.size())])
    again = open_log(host)
    again.restore(numbers)
    for offset in range(60):
        assert bytes_of(read(again, offset, 1)) == batches[offset]
    append(again, batch_at(60, 10))
    assert again.next_offset == 61


@pytest.mark.parametrize("torn", [False, True])
def test_a_full_disk_is_readable_although_an_index_cannot_be_written(torn: bool) -> None:
    host = new_host()
    log = open_log(host)
    batches = fill(log, 60)
    log.flush()
    numbers = log.snapshot()
    for segment in log.segments[:-1]:
        path = index_path(PARTITION, segment.base_offset)
        if torn:
            log._files.disk.open(path).truncate(30)
        else:
            log._files.disk.remove(path)
    again = open_log(host)
    again.restore(numbers)
    host.faults.capacity_bytes = 0
    for offset in range(59, -1, -1):
        assert bytes_of(read(again, offset, 1)) == batches[offset]


def test_a_flipped_bit_is_refused_at_exactly_its_batch() -> None:
    host = new_host()
    log = open_log(host)
    batches = fill(log, 12, size=100)
    log.flush()
    path = segment_path(PARTITION, 0)
    inode = dict(host.platter.inodes())[path]
    start = len(batches[0]) + len(batches[1])
    for at in range(len(batches[2])):
        if at in range(12, 16):
            continue  # The leader epoch: no checksum covers it, and no reader depends on it.
        for bit in range(8):
            inode.content[start + at] ^= 1 << bit
            refused = [offset for offset in range(12) if read(log, offset, 1).code is not None]
            assert refused == [2], (at, bit)
            assert bytes_of(read(log, 0)) == batches[0] + batches[1]
            assert bytes_of(read(log, 3)).startswith(batches[3])
            inode.content[start + at] ^= 1 << bit
    assert [read(log, offset).code for offset in range(12)] == [None] * 12


def test_a_batch_with_a_wrong_end_is_damage_and_not_a_gap() -> None:
    host = new_host()
    log = open_log(host)
    for _ in range(3):
        append(log, batch_at(log.next_offset, 40, records=4))
    log.flush()
    inode = dict(host.platter.inodes())[segment_path(PARTITION, 0)]
    inode.content[len(batch_at(0, 40, records=4)) + 26] = 1  # The second batch states that it ends at 5 instead of 7.
    assert [offset for offset in range(12) if read(log, offset, 1).code is not None] == [4, 5, 6, 7]


def test_a_truncated_file_is_refused_and_never_skipped() -> None:
    host = new_host()
    log = open_log(host)
    fill(log, 40)
    log.flush()
    first = log.segments[0]
    inode = dict(host.platter.inodes())[segment_path(PARTITION, 0)]
    for keep in (first.size_bytes - 1, first.size_bytes // 2, 70, 3, 0):
        del inode.content[keep:]
        code = read(log, first.next_offset - 1).code
        assert code is Code.STORAGE_DAMAGED
        assert read(log, first.next_offset).code is None


def test_everything_may_be_trimmed_and_the_log_continues() -> None:
    host = new_host()
    log = open_log(host)
    fill(log, 25)
    dead = log.advance_start(25)
    assert log.segments == []
    assert len(dead) >= 2
    assert log.tail_bytes == 0
    assert read(log, 24).code is Code.OFFSET_OUT_OF_RANGE
    assert read(log, 25).size_bytes == 0
    batch = batch_at(25, 10)
    assert append(log, batch)[0] == STARTS_SEGMENT
    assert bytes_of(read(log, 25)) == batch
    log.flush()
    assert bytes_of(read(log, 25)) == batch


def test_a_trim_drops_the_tail_and_its_file_is_not_recreated() -> None:
    host = new_host()
    log = open_log(host)
    for _ in range(10):
        append(log, batch_at(log.next_offset, 900))
    assert [segment.base_offset for segment in log.segments] == [0, 4, 8]
    log.advance_start(6)
    log.flush()
    assert sorted(content(host)) == [segment_path(PARTITION, 4), segment_path(PARTITION, 8)]
    assert log.tail_bytes == 0
    assert bytes_of(read(log, 6, 1)) == batch_at(6, 900)


def test_a_trim_after_the_end_moves_the_end() -> None:
    """Trimmed offsets may have been lost with a damaged range of the write-ahead log."""
    log = open_log(new_host())
    fill(log, 3)
    log.advance_start(10)
    assert (log.start_offset, log.next_offset) == (10, 10)


def test_retention_removes_whole_segments_by_age_and_by_size() -> None:
    log = open_log(new_host())
    for number in range(20):
        append(log, batch_at(log.next_offset, 900, timestamp_ms=1_000 + number))
    bases = [segment.base_offset for segment in log.segments]
    assert log.start_for_retention(10_000, -1, -1, 20) == 0
    assert log.start_for_retention(1_008 + 500, 500, -1, 20) == 8
    assert log.start_for_retention(10**9, 500, -1, 20) == 20
    assert log.start_for_retention(10**9, 500, -1, 9) == 8, "unstable offsets stay"
    size = log.bytes_kept()
    assert log.start_for_retention(0, -1, size, 20) == 0
    assert log.start_for_retention(0, -1, size - log.segments[0].size_bytes, 20) == bases[1]
    assert log.start_for_retention(0, -1, 0, 20) == bases[-1], "the active segment stays"


def test_lost_offsets_are_refused_and_others_are_read() -> None:
    host = new_host()
    log = open_log(host)
    batches = fill(log, 4)
    log.replay_batch(parse_header(behind := batch_at(7, 50), 0), behind, 0, 0)
    log.replay_batch(parse_header(last := batch_at(8, 50), 0), last, 0, 0)
    assert log.damaged == [(4, 7)]
    for _ in range(2):
        assert bytes_of(read(log, 0)) == b"".join(batches)
        assert [read(log, offset).code for offset in (4, 5, 6)] == [Code.STORAGE_DAMAGED] * 3
        assert bytes_of(read(log, 7)) == behind + last
        log.flush()
    far = batch_at(9, 50)
    place = log.segments[-1].size_bytes + 777  # Batches in between are lost; the bytes of the file there are arbitrary.
    file = log._files.get(segment_path(PARTITION, log.segments[-1].base_offset))
    file.write_at(place - 777, [b"\xaa" * 777, far])
    log.replay_reference(parse_header(further := batch_at(12, 50), 0), place, 0, 0)
    file.write_at(place, [further])
    assert bytes_of(read(log, 12)) == further
    assert bytes_of(read(log, 8)) == last
    log.advance_start(10)
    assert log.damaged == [(9, 12)]


def test_a_full_disk_keeps_the_tail_and_loses_nothing() -> None:
    host = new_host()
    log = open_log(host)
    batches = fill(log, 3)
    for number in range(3, 30):
        batches.append(batch_at(number, 300))
        append(log, batches[-1])
    for spare in (0, 100, 700, 1_000, 5_000):
        host.faults.capacity_bytes = host.platter.used() + spare
        with pytest.raises(OSError, match="space") as caught:
            log.flush()
        assert caught.value.errno == errno.ENOSPC
        with pytest.raises(OSError, match="space"):
            append(log, batch_at(30, 100_000), direct=True)
        assert log.next_offset == 30
        for offset in range(30):
            assert bytes_of(read(log, offset, 1)) == batches[offset]
    host.faults.capacity_bytes = None
    log.flush()
    assert log.tail_bytes == 0
    assert bytes_of(read(log, 0)).startswith(batches[0])
    assert b"".join(content(host)[path] for path in sorted(content(host))) == b"".join(batches)


def test_replaying_gives_the_same_files_byte_for_byte() -> None:
    first_host = new_host()
    first = open_log(first_host)
    entries: list[tuple[bytes, int, int]] = []
    for number in range(60):
        batch = batch_at(first.next_offset, (number * 37) % 900, records=1 + number % 3, epoch=number // 20)
        flags, position = append(first, batch, direct=number % 4 == 1, now_ms=number * 900)
        entries.append((batch, flags, position))
        if number == 25:
            first.flush()
    second_host = new_host(2)
    second = open_log(second_host)
    disk = second._files.disk
    for batch, flags, position in entries:
        header = parse_header(batch, 0)
        if position < 0:
            second.replay_batch(header, batch, flags, 0)
        else:
            base = header.base_offset if flags else second.segments[-1].base_offset
            second.flush()
            disk.make_directory(segment_path(PARTITION, base).rpartition("/")[0])
            disk.open(segment_path(PARTITION, base), create=True).write_at(position, [batch])
            second.replay_reference(header, position, flags, 0)
    first.flush()
    second.flush()
    assert content(first_host) == content(second_host)
    numbers = first.snapshot()
    assert second.snapshot()[:2] == numbers[:2]
    assert (
        second.epochs.snapshot()
        == first.epochs.snapshot()
        == [(0, 0), (1, entry_offset(entries, 20)), (2, entry_offset(entries, 40))]
    )


def entry_offset(entries: list[tuple[bytes, int, int]], at: int) -> int:
    return parse_header(entries[at][0], 0).base_offset


def test_closing_a_segment_removes_bytes_that_a_crash_left_after_its_end() -> None:
    host = new_host()
    log = open_log(host)
    fill(log, 4)
    log.flush()
    numbers = log.snapshot()
    size = log.segments[-1].size_bytes
    log._files.get(segment_path(PARTITION, 0)).write_at(size, [b"\x55" * 9_000])
    again = open_log(host)
    again.restore(numbers)
    append(again, batch_at(4, 5_000))
    again.flush()
    assert len(content(host)[segment_path(PARTITION, 0)]) == size


def test_a_tail_that_is_being_written_is_read_from_memory_and_then_from_its_file() -> None:
    host = new_host()
    log = open_log(host)
    batches = [batch_at(0, 300), batch_at(1, 300)]
    left: list[int] = []
    append(log, batches[0])
    assert log.flush_behind(left.append)
    append(log, batches[1])
    assert log.flush_behind(left.append)  # One at a time: the second waits in the tail.
    assert log.tail_offset == 0
    assert bytes_of(read(log, 0)) == b"".join(batches)
    log._files.disk.finish_writes()
    assert left == [len(batches[0])]
    assert log.tail_offset == 1
    assert content(host)[segment_path(PARTITION, 0)] == batches[0]
    assert bytes_of(read(log, 0, limit=1)) == batches[0]
    assert bytes_of(read(log, 0)) == b"".join(batches)
    assert log.flush() == len(batches[1])
    assert content(host)[segment_path(PARTITION, 0)] == b"".join(batches)


def test_a_flush_waits_for_writes_in_progress_and_counts_their_bytes() -> None:
    host = new_host()
    log = open_log(host)
    left: list[int] = []
    append(log, batch_at(0, 300))
    assert log.flush_behind(left.append)
    log.flush()
    assert (log.tail_bytes, left, log.is_behind) == (0, [], False)
    assert len(content(host)[segment_path(PARTITION, 0)]) == log.segments[0].written_bytes


def test_a_full_disk_of_the_writer_process_keeps_the_tail_until_a_flush_reports_it() -> None:
    host = new_host()
    log = open_log(host)
    append(log, batch_at(0, 3_000))
    host.faults.capacity_bytes = 1_000
    assert log.flush_behind(lambda size: pytest.fail("nothing was written"))
    log._files.disk.finish_writes()
    assert (log.tail_offset, log.is_behind) == (0, False)
    with pytest.raises(OSError, match="no space"):
        log.flush()
    host.faults.capacity_bytes = None
    assert log.flush() > 3_000


@pytest.mark.parametrize("rolled", [False, True])
def test_an_index_of_truncated_batches_is_not_used_later(rolled: bool) -> None:
    """Unacknowledged batches were written and indexed; after the truncation others take their offsets."""
    host = new_host()
    log = open_log(host)
    log.segment_bytes = 1 << 24
    first = fill(log, 1, size=100)
    log.flush()
    numbers = log.snapshot()
    if rolled:  # The lost ones begin a segment of their own.
        log.segment_bytes = 100
        append(log, batch_at(log.next_offset, INDEX_INTERVAL_BYTES))
        log.segment_bytes = 1 << 24
    for _ in range(8):
        append(log, batch_at(log.next_offset, INDEX_INTERVAL_BYTES))
    log.flush()
    log.save_active_index(0)
    log = open_log(host)
    log.restore(numbers)
    log.segment_bytes = 100 if rolled else 1 << 24
    kept = [batch_at(1, INDEX_INTERVAL_BYTES // 10)]
    append(log, kept[0])
    log.segment_bytes = 1 << 24
    for _ in range(120):
        kept.append(batch_at(log.next_offset, INDEX_INTERVAL_BYTES // 10))
        append(log, kept[-1])
    log.flush()
    numbers = log.snapshot()
    log = open_log(host)
    log.restore(numbers)
    kept.append(batch_at(log.next_offset, INDEX_INTERVAL_BYTES // 10))
    append(log, kept[-1])  # An append loads the index file and scans the rest.
    for offset, batch in enumerate([*first, *kept]):
        assert bytes_of(read(log, offset, bytes_max=1)) == batch


def test_old_pages_leave_memory_step_by_step() -> None:
    log = open_log(new_host())
    while len(log.segments) < 3:
        append(log, batch_at(log.next_offset, 300))
    log.flush()
    bases = {segment.base_offset for segment in log.segments[1:]}
    written = sum(segment.written_bytes for segment in log.segments[1:])
    steps = 1
    while not log.written_is_recent(bases, 1_000):
        steps += 1
    assert [segment.noted_bytes for segment in log.segments[1:]] == [one.written_bytes for one in log.segments[1:]]
    assert written // 1_000 <= steps <= written // 1_000 + 2
    assert log.segments[0].noted_bytes == 0  # Not on the disk yet.
    assert log.written_is_recent(bases, 1_000)


def test_a_batch_behind_the_first_chunk_is_read_where_no_read_is_ever_warm() -> None:
    """File systems that cannot tell what is in memory: each read is cold, also of what was read a moment ago."""
    host = new_host()
    log = PartitionLog(OpenFiles(host.boot().disk, 3), PARTITION, 1 << 20, SEGMENT_MS)
    small, large = batch_at(0, 50), batch_at(1, 2 * INDEX_INTERVAL_BYTES)
    for batch in (small, large):
        append(log, batch, direct=True)
    read(log, 0)  # Its index is in memory now.
    host.faults.cold_read_chance = 1.0
    supplied: Supplied | None = None
    for _ in range(4):
        result = log.read(1, 1, 2, supplied)
        if result.cold is None:
            break
        data = log._files.get(result.cold.path).read_at(result.cold.position, result.cold.size)
        supplied = Supplied(result.cold.path, result.cold.position, data, version=result.cold.version)
    assert bytes_of(result) == large

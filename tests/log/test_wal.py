"""The guarantees of the write-ahead log: nothing synced is lost, and nothing truncated returns."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from crc32c import crc32c

from longhall.errors import Code, LonghallError
from longhall.log.frames import ENTRY_BYTES_MAX, FRAME_BYTES_MAX, Frame, encode_event
from longhall.log.wal import FILE_BYTES_MIN, FILE_HEADER_BYTES, Damage, Wal
from longhall.world.ports import World
from longhall.world.real import real_world
from tests.log.waldesk import WalDesk, entry_size, numbers_of


def test_written_entries_are_read_in_order() -> None:
    desk = WalDesk()
    for size in (0, 1, 100, 5000):
        for _ in range(3):
            desk.append(size)
        desk.sync()
    assert desk.boot() == list(range(12))
    desk.put()
    assert desk.boot() == list(range(13))
    assert desk.damage == []


def test_the_real_disk_gives_the_same_log(tmp_path: Path) -> None:
    world: World = real_world(str(tmp_path / "data"))
    try:
        wal = Wal(world.disk, FILE_BYTES_MIN)
        assert list(wal.recover(0)) == []
        wal.resume(0, 0)
        for number in range(20):
            wal.append(encode_event(0, 1, number, 0, 0, number.to_bytes(8, "big") + bytes(1_500_000)))
            wal.write(7)
        for file in wal.dirty_files():
            world.disk.sync_now(file)
        wal.close()
        again = Wal(world.disk, FILE_BYTES_MIN)
        frames = [frame for frame in again.recover(0) if isinstance(frame, Frame)]
        assert [number for frame in frames for number in numbers_of(frame)] == list(range(20))
        assert {frame.time_ms for frame in frames} == {7}
        again.close()
    finally:
        world.close()


def test_a_tail_torn_at_any_byte_is_truncated_and_nothing_before_it() -> None:
    desk = WalDesk()
    kept = [desk.put(30), desk.put(30)]
    end = desk.wal.end
    torn = desk.append(40)
    desk.write()
    size = desk.wal.end - end
    whole = bytes(desk.current().content[: end + size])
    for cut in range(size + 1):
        for filler in (b"\0", b"\xff"):
            inode = desk.current()
            inode.content[: end + size] = whole[: end + cut] + filler * (size - cut)
            frame = slice(end, end + size)
            wrong = int.from_bytes(inode.content[frame], "big") ^ int.from_bytes(whole[frame], "big")
            expected = kept + [torn] if wrong.bit_count() <= 1 else kept  # A single wrong bit is corrected.
            assert desk.boot() == expected, cut
            assert desk.damage == []
            assert desk.wal.end == (end + size if torn in expected else end)


def test_truncated_frames_do_not_return_after_a_shorter_frame() -> None:
    desk = WalDesk()
    desk.put()
    position = desk.wal.end
    for _ in range(3):  # Three unacknowledged frames; the first of them is torn.
        desk.append(100)
        desk.write()
    desk.current().content[position + 60] ^= 3
    assert desk.boot() == [0]
    desk.appended = [0]
    after = desk.put(100)  # Exactly as large as the first, so that the second follows it directly.
    assert desk.boot() == [0, after]
    assert desk.damage == []


def test_damage_before_the_horizon_is_reported_and_skipped() -> None:
    desk = WalDesk()
    for _ in range(6):
        desk.put(50)
    desk.current().content[desk.positions[2] + 70] ^= 3
    assert desk.boot() == [0, 1, 3, 4, 5]
    assert [(damage.position, damage.next_position) for damage in desk.damage] == [
        (desk.positions[2], desk.positions[3])
    ]
    desk.put(50)
    assert desk.boot() == [0, 1, 3, 4, 5, 6]


def test_a_flipped_bit_in_the_last_frame_is_corrected_on_the_disk() -> None:
    desk = WalDesk()
    kept = [desk.put(50), desk.put(50)]
    position = desk.positions[-1]
    size = desk.wal.end - position
    whole = bytes(desk.current().content)
    for bit in range(0, size * 8, 61):
        desk.current().content[position + bit // 8] ^= 1 << bit % 8
        assert desk.boot() == kept, bit
        assert list(desk.wal.corrections) == [position + bit // 8]
        assert (desk.damage, desk.wal.torn_bytes) == ([], 0)
        assert bytes(desk.current().content) == whole


def test_a_durable_frame_with_one_flipped_bit_is_not_damage() -> None:
    desk = WalDesk()
    for _ in range(6):
        desk.put(50)
    desk.current().content[desk.positions[2] + 70] ^= 8
    assert desk.boot() == list(range(6))
    assert desk.damage == []


def test_torn_bytes_after_the_end_are_counted() -> None:
    desk = WalDesk()
    desk.put(50)
    begin = desk.wal.end
    for _ in range(3):
        desk.append(100)
        desk.write()
    end = desk.wal.end
    desk.current().content[begin + 90 : begin + 100] = bytes(10)
    assert desk.boot() == [0]
    assert desk.wal.torn_bytes == end - begin
    assert desk.boot() == [0]


def test_a_later_frame_proves_that_earlier_ones_were_durable() -> None:
    desk = WalDesk()
    desk.put(50)
    assert desk.wal.vouched < desk.wal.end
    end = desk.wal.end
    desk.put(5)
    assert desk.wal.vouched == end
    desk.current().content[desk.positions[0] + 70] ^= 0x81
    assert desk.boot() == [1]
    assert len(desk.damage) == 1


def test_damage_before_a_snapshot_is_not_a_torn_tail() -> None:
    desk = WalDesk()
    for _ in range(3):
        desk.put(50)
    # No later frame shows that the last two were synced, but a later snapshot does.
    desk.current().content[desk.positions[1] + 70] ^= 3
    desk.durable = desk.wal.end
    assert desk.boot() == [0, 2]
    assert len(desk.damage) == 1


@pytest.mark.parametrize("missing", range(44, 56))
def test_the_log_continues_in_the_next_file_with_any_space_left(missing: int) -> None:
    """A frame fits if a closing frame still fits after it; all sizes around that boundary."""
    desk = WalDesk()
    for _ in range(4):
        desk.put(3_500_000)
    rest = FILE_BYTES_MIN - desk.wal.end
    desk.put(entry_size(rest - missing))
    desk.put(5)
    desk.put(5)
    assert desk.boot() == list(range(7))
    assert desk.damage == []
    assert len(desk.wal._used) == 2
    desk.put()
    assert desk.boot() == list(range(8))


def test_resume_exactly_at_the_start_of_the_next_file() -> None:
    """The closing frame was written and nothing after it: the next file starts empty."""
    desk = WalDesk()
    for _ in range(4):
        desk.put(3_500_000)
    desk.put(entry_size(FILE_BYTES_MIN - desk.wal.end - 48))
    desk.append(5)
    desk.write()
    second = desk.current()
    assert desk.wal.end < FILE_BYTES_MIN + 1000
    second.content[FILE_HEADER_BYTES + 10] ^= 3  # Its frame is torn.
    assert desk.boot() == [0, 1, 2, 3, 4]
    assert desk.wal.end == FILE_BYTES_MIN + FILE_HEADER_BYTES
    desk.put()
    assert desk.boot() == [0, 1, 2, 3, 4, 6]


def test_files_are_reused_and_their_old_frames_are_ignored() -> None:
    desk = WalDesk()
    for _ in range(40):
        desk.put(2_500_000)
        released = desk.wal.end
        desk.wal.release_before(released)
        desk.from_position = released
        desk.appended = []
        desk.synced = 0
    assert len(desk.files()) <= 4
    kept = [desk.put(100), desk.put(100)]
    for _ in range(3):
        assert desk.boot() == kept
        assert desk.damage == []


def test_the_largest_entries_fit() -> None:
    desk = WalDesk()
    room = ENTRY_BYTES_MAX - 25
    desk.append(FRAME_BYTES_MAX - 26)  # One byte less than closes a frame.
    desk.append(room)
    desk.append(room)
    desk.sync()
    desk.put()
    assert desk.boot() == [0, 1, 2, 3]
    assert desk.damage == []


@pytest.mark.parametrize(("before", "after"), [(16, 32), (32, 16), (16, 20)])
def test_another_file_size_after_a_restart(before: int, after: int) -> None:
    desk = WalDesk(file_bytes=before << 20)
    for _ in range(20):
        desk.put(2_500_000)
    desk.file_bytes = after << 20
    assert desk.boot() == list(range(20))
    for _ in range(20):
        desk.put(2_500_000)
    desk.file_bytes = before << 20
    assert desk.boot() == list(range(40))
    desk.put()
    assert desk.boot() == list(range(41))
    assert desk.damage == []


@pytest.mark.parametrize("sectors", [0, 1, 40])
def test_a_file_with_a_damaged_header_is_identified_by_its_frames(sectors: int) -> None:
    desk = WalDesk()
    for _ in range(40):
        desk.put(1_000_000)
    assert len(desk.wal._used) >= 3
    middle = desk.files()[desk.wal._used[1].file.path]
    size = 64 + sectors * 512
    middle.content[:size] = bytes(size)
    found = desk.boot()
    assert found == list(range(40)) if sectors == 0 else found[-1] == 39
    assert len(found) >= 39
    desk.put()
    assert desk.boot()[-1] == 40


def test_a_missing_first_file_is_damage_and_not_the_end() -> None:
    desk = WalDesk()
    for _ in range(20):
        desk.put(2_500_000)
    desk.disk.remove(desk.wal._used[0].file.path)
    found = desk.boot()
    assert found
    assert found[-1] == 19
    assert [damage.position for damage in desk.damage] == [0]


def test_two_files_never_claim_the_same_position() -> None:
    """A file freed by a truncation must not be mistaken for the one written at its position."""
    for seed in range(4):
        desk = WalDesk(seed)
        chance = random.Random(seed)
        for _ in range(30):
            desk.put(2_500_000)
            desk.wal.release_before(desk.wal.end)
            desk.from_position = desk.wal.end
            desk.appended, desk.synced = [], 0
        for _ in range(chance.randrange(4, 12)):
            desk.append(2_500_000)
            desk.write()
        desk.current()
        first = desk.positions[-1]
        for file in desk.wal._used:
            inode = desk.files()[file.file.path]
            for position in desk.positions[30:]:
                if file.start <= position < file.end and position < first:
                    inode.content[position - file.start + 50 : position - file.start + 60] = bytes(10)
        desk.boot()
        desk.appended, desk.synced = [], 0
        for _ in range(chance.randrange(8, 20)):
            desk.put(2_500_000)
            if chance.random() < 0.3:
                desk.wal.release_before(desk.wal.end)
                desk.from_position = desk.wal.end
                desk.appended, desk.synced = [], 0
        assert desk.boot() == desk.appended
        assert desk.damage == []


def test_missing_space_for_the_next_file_is_detected_early() -> None:
    desk = WalDesk()
    desk.wal.prepare_spare()
    desk.host.faults.capacity_bytes = desk.host.platter.used()
    size = 900_000
    while desk.wal.room_bytes() >= size + 25:
        desk.put(size)  # Never raises: the space was reserved.
    with pytest.raises(OSError, match="space"):
        for _ in range(100):
            desk.put(size)
    desk.host.faults.capacity_bytes = None
    desk.appended.clear()
    assert len(desk.boot()) >= 20


def test_space_is_reserved_again_after_a_power_failure_undid_it() -> None:
    desk = WalDesk()
    desk.put()
    desk.host.cut_power()
    inode = desk.current()
    del inode.content[desk.wal.end :]  # A hole has no blocks, and a write there needs some.
    inode.reserved = 0
    desk.host.faults.capacity_bytes = 1_000_000
    desk.boot()
    assert desk.wal.room_bytes() <= 0
    desk.host.faults.capacity_bytes = None
    desk.wal.prepare_spare()
    assert desk.wal.room_bytes() > 10_000_000


def test_a_newer_format_is_refused_with_a_message() -> None:
    desk = WalDesk()
    desk.put()
    inode = desk.current()
    inode.content[5] = 9
    inode.content[24:28] = crc32c(bytes(inode.content[:24])).to_bytes(4, "big")
    with pytest.raises(LonghallError, match="newer") as caught:
        desk.boot()
    assert caught.value.code is Code.UNSUPPORTED_VERSION


@pytest.mark.parametrize("seed", range(24))
def test_repeated_crash_recovery_and_append(seed: int) -> None:
    """Rounds of small and large frames, some synced, with a power failure or a kill at any change of the disk."""
    chance = random.Random(seed)
    desk = WalDesk(seed)
    for _ in range(6):
        if chance.random() < 0.7:
            desk.host.faults.cut_after_changes = chance.randrange(1, 30)
        with desk.power():
            for _ in range(chance.randrange(12)):
                for _ in range(chance.randrange(1, 4)):
                    desk.append(chance.choice((0, 20, 700, 3_000_000)))
                if chance.random() < 0.6:
                    desk.sync()
                else:
                    desk.write()
                if chance.random() < 0.15 and desk.synced == len(desk.appended):
                    desk.wal.release_before(desk.wal.end)
                    desk.from_position, desk.durable = desk.wal.end, desk.wal.end
                    desk.appended, desk.synced = [], 0
            if chance.random() < 0.5:
                desk.host.kill()
            else:
                desk.host.cut_power()
        desk.host.faults.cut_after_changes = chance.randrange(12) if chance.random() < 0.3 else -1
        found = None
        with desk.power():
            found = desk.boot()
        if found is None:
            desk.host.faults.cut_after_changes = -1
            found = desk.boot()
        assert desk.damage == []
        desk.expect_after_crash(found)


def test_damage_has_two_positions() -> None:
    damage = Damage(3, 9)
    assert (damage.position, damage.next_position) == (3, 9)

"""Rounds: a waiting request is released in order when its entry is on the disk, and not before."""

from __future__ import annotations

import pytest

from longhall.log.files import OpenFiles
from longhall.log.frames import CONTINUED, CONTINUES, EVENT, Frame
from longhall.log.wal import FILE_BYTES_MIN, Wal
from longhall.shards.journal import Journal, Round
from longhall.shards.shard import EVENT_PART_BYTES, GROUPS, Committable, Shard
from simulation.world import Simulation


class Target(Committable):
    """Records the values that are released."""

    def __init__(self, heard: list[int]) -> None:
        self.heard = heard

    def committed(self, value: int) -> None:
        self.heard.append(value)


class Desk:
    def __init__(self) -> None:
        self.disk = Simulation(1).host("node").boot().disk
        self.wal = Wal(self.disk, FILE_BYTES_MIN)
        list(self.wal.recover(0))
        self.wal.resume(0, 0)
        self.files = OpenFiles(self.disk, 2)
        self.shards = [Shard(number, self.wal) for number in range(3)]
        self.journal = Journal(self.wal, self.shards, self.files)
        self.heard: list[int] = []
        self.target = Target(self.heard)

    def append(self, shard: int, value: int, sync: bool = True) -> None:
        self.shards[shard].append_event(GROUPS, b"event")
        self.journal.touch(self.shards[shard], sync)
        self.shards[shard].wait(self.target, value)

    def begin(self) -> Round:
        self.journal.write(1)
        return self.journal.begin()


def test_nothing_is_released_before_its_sync() -> None:
    desk = Desk()
    desk.append(1, 10)
    assert desk.heard == []
    first = desk.begin()
    desk.append(1, 11)
    desk.append(2, 20)
    desk.journal.write(2)
    assert desk.heard == []
    desk.journal.finish(first)
    assert desk.heard == [10]
    assert desk.wal.horizon == first.position
    second = desk.begin()
    desk.journal.finish(second)
    assert desk.heard == [10, 11, 20]


def test_a_wait_without_entries_is_released_at_once_and_never_overtakes() -> None:
    desk = Desk()
    shard = desk.shards[1]
    shard.wait(desk.target, 1)
    assert desk.heard == [1]
    desk.append(1, 2)
    shard.wait(desk.target, 3)
    assert desk.heard == [1]
    desk.journal.finish(desk.begin())
    assert desk.heard == [1, 2, 3]
    shard.wait(desk.target, 4)
    assert desk.heard == [1, 2, 3, 4]
    assert shard.waiting == 0


def test_an_unfinished_round_blocks_itself_and_later_rounds() -> None:
    desk = Desk()
    desk.append(1, 1)
    desk.begin()  # Its sync fails: `finish` is not called.
    desk.append(1, 2)
    desk.journal.write(3)
    assert desk.heard == []
    assert desk.shards[1].waiting == 2


def test_topics_without_sync_are_released_by_the_write() -> None:
    desk = Desk()
    desk.shards[1].append_event(GROUPS, b"event")
    desk.journal.touch(desk.shards[1], False)
    desk.journal.wait_written(desk.target, 5)
    assert desk.heard == []
    assert not desk.journal.sync_wanted
    desk.journal.write(1)
    assert desk.heard == [5]
    desk.journal.wait_written(desk.target, 6)  # Nothing more was appended: released by the next write.
    desk.journal.write(1)
    assert desk.heard == [5, 6]


def test_a_released_target_may_append_at_once() -> None:
    desk = Desk()

    class Eager(Committable):
        def committed(self, value: int) -> None:
            if value:
                desk.append(1, value - 1)
                desk.shards[1].wait(self, value - 1)
            desk.heard.append(-value)

    desk.append(1, 100)
    desk.shards[1].wait(Eager(), 2)
    desk.journal.finish(desk.begin())
    assert desk.heard == [100, -2]
    assert desk.journal.pending
    desk.journal.finish(desk.begin())
    assert desk.heard == [100, -2, 1, -1]


def test_a_round_syncs_segments_whose_files_were_closed_meanwhile() -> None:
    desk = Desk()
    paths = []
    for number in range(5):
        path = f"d/{number}"
        file = desk.files.make("d", path)
        file.write_at(0, [b"x"])
        desk.journal.touch_file(file)
        paths.append(path)
    assert desk.journal.file_count == 5
    desk.append(1, 1)
    round = desk.begin()
    assert [file.path for file in round.files[1:]] == paths
    assert desk.journal.file_count == 0
    assert [file.path for file in desk.begin().files[1:]] == []


def test_a_shard_releases_in_order_across_rounds() -> None:
    desk = Desk()
    shard = desk.shards[1]
    for value in range(3):
        desk.append(1, value)
    shard.advance(2)
    assert desk.heard == [0, 1]
    shard.advance(1)
    assert desk.heard == [0, 1]
    shard.advance(3)
    assert desk.heard == [0, 1, 2]


@pytest.mark.parametrize("size", [0, 1, EVENT_PART_BYTES, EVENT_PART_BYTES + 1, 3 * EVENT_PART_BYTES + 7])
def test_an_event_of_any_size_is_written_in_parts_that_fit(size: int) -> None:
    desk = Desk()
    event = bytes(range(256)) * (size // 256 + 1)
    event = event[:size]
    desk.shards[2].append_event(GROUPS, event)
    desk.journal.write(1)
    again = Wal(desk.disk, FILE_BYTES_MIN)
    entries = [entry for frame in again.recover(0) if isinstance(frame, Frame) for entry in frame.entries]
    assert b"".join(entry.event() for entry in entries) == event
    assert all(entry.kind == EVENT and entry.room() == GROUPS for entry in entries)
    assert [bool(entry.flags & CONTINUED) for entry in entries] == [True] * (len(entries) - 1) + [False]
    assert [bool(entry.flags & CONTINUES) for entry in entries] == [False] + [True] * (len(entries) - 1)
    assert [entry.sequence for entry in entries] == list(range(1, len(entries) + 1))

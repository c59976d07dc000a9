"""Rot in the last frame of a log at rest: known as damage, or put right, and never cut without a word."""

from __future__ import annotations

import asyncio

from longhall.broker.checkpoint import checkpoint
from longhall.broker.housekeeper import Housekeeper
from longhall.broker.topic_administration import create_topic
from longhall.broker.trailing_frame import TrailingFrameWriter
from simulation.platter import Inode
from tests.broker.desk import Desk, Life, batch_of

LAST = b"the last one that was acknowledged"


def played(*, idle_s: float) -> Desk:
    desk = Desk()

    async def play(life: Life) -> None:
        housekeeper = Housekeeper(life.hall)
        housekeeper.start()
        await create_topic(life.hall, "t", 1, {})
        await life.send(life.partition("t"), batch_of(b"before"))
        await asyncio.sleep(5)
        await life.send(life.partition("t"), batch_of(LAST))
        await asyncio.sleep(idle_s)

    desk.live(play, end="cut")
    return desk


def log_of(desk: Desk) -> Inode:
    (inode,) = [
        inode for path, inode in desk.host.platter.inodes() if path.startswith("wal/") and LAST in inode.content
    ]
    return inode


def test_after_a_second_damage_is_detected_as_damage() -> None:
    desk = played(idle_s=4.0)
    inode = log_of(desk)
    inode.content[inode.content.index(LAST)] ^= 0x41

    async def look(life: Life) -> None:
        assert len(life.report.damage) == 1
        assert life.report.cut_bytes == 0

    desk.live(look)


def test_a_single_bit_flip_is_corrected_at_once() -> None:
    for idle_s in (0.0, 4.0):
        desk = played(idle_s=idle_s)
        inode = log_of(desk)
        inode.content[inode.content.index(LAST)] ^= 0x40

        async def look(life: Life) -> None:
            assert len(life.report.corrected) == 1
            assert (life.report.damage, life.report.cut_bytes) == ([], 0)
            assert LAST in b"".join(life.partition("t").log.read(1, 1000, 2).buffers)

        desk.live(look)

        async def again(life: Life) -> None:
            assert life.report.corrected == []  # On the disk, too.

        desk.live(again)


def test_truncated_bytes_are_counted() -> None:
    desk = played(idle_s=0.0)
    inode = log_of(desk)
    inode.content[inode.content.index(LAST)] ^= 0x41

    async def look(life: Life) -> None:
        assert life.report.damage == []
        assert life.report.cut_bytes > len(LAST)
        assert life.partition("t").log.next_offset == 1

    desk.live(look)


def test_an_idle_log_gets_one_trailing_frame_and_a_busy_one_none() -> None:
    desk = Desk()

    async def play(life: Life) -> None:
        await create_topic(life.hall, "t", 1, {})
        voucher = TrailingFrameWriter(life.hall)
        voucher.look()
        for _ in range(5):  # Something happens between any two looks.
            await life.send(life.partition("t"), batch_of(b"x"))
            rounds = life.hall.journal.rounds
            voucher.look()
            await asyncio.sleep(0.5)
            assert life.hall.journal.rounds == rounds
        end = life.hall.wal.end
        for _ in range(5):
            voucher.look()
            await asyncio.sleep(0.5)
        assert end < life.hall.wal.end < end + 200
        assert life.hall.wal.vouched == end
        await life.send(life.partition("t"), batch_of(b"x"))
        await checkpoint(life.hall)  # It vouches for everything before it.
        end = life.hall.wal.end
        for _ in range(5):
            voucher.look()
            await asyncio.sleep(0.5)
        assert life.hall.wal.end == end

    desk.live(play)

    async def look(life: Life) -> None:
        assert life.partition("t").log.next_offset == 6

    desk.live(look)

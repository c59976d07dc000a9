"""What must be archived first stays, whatever retention, compaction and administrators want."""

from __future__ import annotations

import asyncio

import pytest

from longhall.broker.archive_hold import archived_end
from longhall.broker.checkpoint import checkpoint
from longhall.broker.log_cleaner import LogCleaner
from longhall.broker.queues.service import QueueService as Queues
from longhall.broker.topic_administration import configure_topic, create_topic, delete_topic, trim_log
from longhall.errors import Code, LonghallError
from longhall.names import ARCHIVE_GROUP
from longhall.queues.messages import Outgoing
from longhall.queues.settings import QueueSettings
from longhall.topics.effects import CommitRequest
from tests.broker.desk import OPTIONS, Desk, Life, batch_of, stored_batches

TIGHT = {"segment.bytes": "3000", "retention.bytes": "3000", "longhall.archive": "required"}
MESSAGES = 30


async def fill(life: Life, topic: str = "t") -> None:
    for number in range(MESSAGES):
        await life.send(life.partition(topic), batch_of(b"%d" % number + b"." * 400, key=b"key-%d" % (number % 4)))


async def tell(life: Life, offset: int, metadata: str | None = None, topic: str = "t") -> None:
    """As an archiver does it, or as another tool would."""
    told = f"{life.partition(topic).topic_id.hex()} file:///archive 7" if metadata is None else metadata
    rows = ((topic, 0, offset, -1, told),)
    request = CommitRequest(group_id=ARCHIVE_GROUP, generation=-1, member_id="", instance_id=None, offsets=rows)
    assert (await life.coordinator.commit_offsets(request)).code is None


def test_retention_stops_at_the_end_of_the_archive() -> None:
    desk = Desk()

    async def play(life: Life) -> None:
        await create_topic(life.hall, "t", 1, TIGHT)
        await fill(life)
        log = life.partition("t").log
        await LogCleaner(life.hall).run()
        assert log.start_offset == 0, "no archive has anything"
        await tell(life, 10)
        await LogCleaner(life.hall).run()
        assert 0 < log.start_offset <= 10
        await tell(life, MESSAGES)
        await LogCleaner(life.hall).run()
        assert log.start_offset > 10

    desk.live(play)


@pytest.mark.parametrize("end", ["kill", "cut"])
def test_truncation_never_passes_the_archive_through_power_cuts(end: str) -> None:
    for changes in range(0, 200, 5):
        desk = Desk(changes)
        told = 0

        async def play(life: Life, changes: int = changes, desk: Desk = desk) -> bool:
            nonlocal told
            await create_topic(life.hall, "t", 1, TIGHT)
            await fill(life)
            desk.host.faults.cut_after_changes = changes
            for offset in range(5, MESSAGES, 5):
                told = offset  # The manifest is durable; whether the hall will have heard of it is open.
                await tell(life, offset)
                await LogCleaner(life.hall).run()
                await checkpoint(life.hall)
            desk.host.faults.cut_after_changes = -1
            return True

        done = desk.live(play, end=end)
        desk.host.faults.cut_after_changes = -1

        async def look(life: Life, told: int = told) -> None:
            await LogCleaner(life.hall).run()
            log = life.partition("t").log
            assert log.start_offset <= archived_end(life.hall, life.partition("t")) <= told
            assert [header.base_offset for header, _ in stored_batches(life.partition("t"))][-1] == MESSAGES - 1

        desk.live(look, end=end)
        if done:
            return
    raise AssertionError("the cleaning never came to its end")


def test_foreign_offsets_release_nothing() -> None:
    desk = Desk()

    async def play(life: Life) -> None:
        await create_topic(life.hall, "t", 1, TIGHT)
        await fill(life)
        await tell(life, MESSAGES, metadata="")
        await LogCleaner(life.hall).run()
        assert life.partition("t").log.start_offset == 0, "a tool that resets offsets archives nothing"
        earlier = life.partition("t").topic_id.hex()
        await tell(life, MESSAGES)
        await delete_topic(life.hall, "t")
        await create_topic(life.hall, "t", 1, TIGHT)
        await fill(life)
        await LogCleaner(life.hall).run()
        assert life.partition("t").log.start_offset == 0, "the topic is another one now"
        await tell(life, MESSAGES, metadata=f"{earlier} file:///archive 8")
        await LogCleaner(life.hall).run()
        assert life.partition("t").log.start_offset == 0, "an archiver that came late meant the earlier one"

    desk.live(play)


def test_compaction_waits_for_the_archive() -> None:
    desk = Desk()
    compact = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01", "segment.bytes": "3000"}

    async def play(life: Life) -> None:
        await create_topic(life.hall, "t", 1, {**compact, "longhall.archive": "required"})
        await fill(life)
        await checkpoint(life.hall)
        before = life.partition("t").log.bytes_kept()
        await LogCleaner(life.hall).run()
        assert life.partition("t").log.bytes_kept() == before
        await tell(life, MESSAGES)
        await LogCleaner(life.hall).run()
        assert life.partition("t").log.bytes_kept() < before

    desk.live(play)


def test_unarchived_records_cannot_be_deleted() -> None:
    desk = Desk()

    async def play(life: Life) -> None:
        await create_topic(life.hall, "t", 1, TIGHT)
        await fill(life)
        await tell(life, 10)
        with pytest.raises(LonghallError) as refused:
            await trim_log(life.hall, life.partition("t"), 11)
        assert refused.value.code is Code.NOT_ARCHIVED
        assert await trim_log(life.hall, life.partition("t"), 10) == 10

    desk.live(play)


def test_a_full_disk_refuses_producers_and_drops_nothing() -> None:
    desk = Desk()

    async def play(life: Life) -> None:
        await create_topic(life.hall, "t", 1, TIGHT)
        await fill(life)
        life.hall.storage_full = True
        await LogCleaner(life.hall).run()
        assert life.partition("t").log.start_offset == 0
        sent = await life.send(life.partition("t"), batch_of(b"one more"))
        assert sent.code is Code.STORAGE_FULL

    desk.live(play)


def test_a_queue_frees_settled_messages_after_they_are_archived() -> None:
    desk = Desk()

    async def clean(life: Life, cleaner: LogCleaner) -> None:
        for _ in range(2):
            await checkpoint(life.hall)
            await cleaner.run()
            await asyncio.sleep(OPTIONS.settled_grace_ms / 1000 + 1)

    async def play(life: Life) -> None:
        queues = Queues(life.hall)
        await queues.create("q", QueueSettings(lease_ms=60_000))
        await configure_topic(life.hall, "q", {"segment.bytes": "3000", "longhall.archive": "required"})
        for number in range(30):
            await queues.send("q", [Outgoing(body=b"%d" % number + b"." * 400)])
            found = await queues.receive("q", 1, 0, 60_000, "")
            await queues.settle("q", [one.receipt for one in found])
        cleaner = LogCleaner(life.hall)
        log = life.partition("q").log
        await clean(life, cleaner)
        assert len(stored_batches(life.partition("q"))) == 30, "settled, and in no archive"
        await tell(life, 12, topic="q")
        await clean(life, cleaner)
        assert 0 < log.start_offset <= 12
        await tell(life, 30, topic="q")
        await clean(life, cleaner)
        assert log.start_offset > 20

    desk.live(play)

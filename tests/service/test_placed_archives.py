"""Topics in replication groups that must be archived: each group releases what the archiver committed in the hall."""

from __future__ import annotations

import pytest

from longhall.broker import feature_gates
from longhall.broker.archive_hold import archive_progress, archived_end
from longhall.broker.log_cleaner import LogCleaner
from longhall.broker.topic_administration import configure_topic, create_topic, delete_topic
from longhall.cluster.placement.archive_progress import TOLD_S, ArchiveTeller
from longhall.errors import Code, LonghallError
from longhall.names import ARCHIVE_GROUP
from longhall.shards.replica import Replica
from longhall.topics.effects import CommitRequest
from tests.broker.desk import batch_of
from tests.service.house import House, live

TIGHT = {"segment.bytes": "3000", "retention.bytes": "3000", "longhall.archive": "required"}
PLACED = {**TIGHT, "longhall.placement": "parts"}
MESSAGES = 30


async def fill(house: House) -> None:
    """Messages in the partition of each group."""
    for partition, life in enumerate(house.wings.values()):
        for number in range(MESSAGES):
            await life.send(life.hall.routes["t"][partition], batch_of(b"%d" % number + b"." * 400))


async def commit(house: House, partition: int, offset: int) -> None:
    """As an archiver does it, at the hall."""
    words = f"{house.main.partition('t').topic_id.hex()} file:///archive 7"
    request = CommitRequest(group_id=ARCHIVE_GROUP, offsets=(("t", partition, offset, -1, words),))
    assert (await house.main.coordinator.commit_offsets(request)).code is None


async def tell(house: House, teller: ArchiveTeller, now_s: float = 0.0) -> list[int]:
    """Tell all groups; the offsets from which on each keeps its partition."""
    for number in house.wings:
        await teller.tell(number, now_s)
    return [archived_end(life.hall, life.hall.routes["t"][at]) for at, life in enumerate(house.wings.values())]


async def clean(house: House) -> list[int]:
    """Where the log of each group begins after retention."""
    for life in house.wings.values():
        await LogCleaner(life.hall).run()
    return [life.hall.routes["t"][at].log.start_offset for at, life in enumerate(house.wings.values())]


def test_each_group_keeps_what_is_not_archived() -> None:
    async def play(house: House) -> None:
        await create_topic(house.main.hall, "t", 3, PLACED)
        await fill(house)
        assert await clean(house) == [0, 0, 0], "nothing is known of an archive"
        teller = ArchiveTeller(house.main.hall, house.reach.call)
        assert await tell(house, teller) == [0, 0, 0]
        await commit(house, 0, 10)
        await commit(house, 1, MESSAGES)
        assert await tell(house, teller) == [10, MESSAGES, 0]
        first, second, third = await clean(house)
        assert 0 < first <= 10
        assert 10 < second <= MESSAGES
        assert third == 0

    live(play)


def test_what_a_group_knows_already_is_not_written_again() -> None:
    async def play(house: House) -> None:
        await create_topic(house.main.hall, "t", 3, PLACED)
        await fill(house)
        await commit(house, 0, 10)
        teller = ArchiveTeller(house.main.hall, house.reach.call)
        await tell(house, teller)
        asked = len(house.reach.asked)
        await tell(house, teller)
        assert len(house.reach.asked) == asked, "nothing has changed"
        group = house.wings[1].hall
        written = sum(shard.sequence for shard in group.shards)
        await tell(house, teller, TOLD_S)
        assert len(house.reach.asked) == asked + 3, "a group may have forgotten it"
        assert sum(shard.sequence for shard in group.shards) == written, "it has not"
        again = ArchiveTeller(house.main.hall, house.reach.call)
        assert (await tell(house, again))[0] == 10, "the next leader tells it again"

    live(play)


def test_a_group_that_was_away_is_told_later() -> None:
    async def play(house: House) -> None:
        await create_topic(house.main.hall, "t", 3, PLACED)
        await fill(house)
        teller = ArchiveTeller(house.main.hall, house.reach.call)
        await tell(house, teller)
        await commit(house, 0, 10)
        house.reach.away = {1}
        with pytest.raises(LonghallError):
            await teller.tell(1, 1.0)
        house.reach.away = set()
        assert await tell(house, teller, 2.0) == [10, 0, 0]

    live(play)


def test_a_withdrawn_offset_and_an_earlier_topic_release_nothing() -> None:
    async def play(house: House) -> None:
        await create_topic(house.main.hall, "t", 3, PLACED)
        await fill(house)
        await commit(house, 0, 10)
        teller = ArchiveTeller(house.main.hall, house.reach.call)
        assert await tell(house, teller) == [10, 0, 0]
        assert await house.main.coordinator.delete_group(ARCHIVE_GROUP) is None
        assert await tell(house, teller) == [0, 0, 0]
        await commit(house, 0, 10)
        assert await tell(house, teller) == [10, 0, 0]
        await delete_topic(house.main.hall, "t")
        await create_topic(house.main.hall, "t", 3, PLACED)
        await fill(house)
        assert await tell(house, teller) == [0, 0, 0]
        topic = house.main.hall.topic("t")
        assert topic is not None
        assert {offset for _, offset, _ in archive_progress(house.main.hall, topic)} == {0}

    live(play)


def test_below_the_feature_level_the_hall_stores_what_must_be_archived() -> None:
    async def play(house: House) -> None:
        hall = house.main.hall
        await create_topic(hall, "u", 3, {"longhall.placement": "parts"})
        hall.replica = Replica(1)  # Only a cluster has a level.
        hall.feature_level = feature_gates.GROUP_QUEUES_LEVEL - 1
        for work in (create_topic(hall, "t", 3, PLACED), configure_topic(hall, "u", TIGHT)):
            with pytest.raises(LonghallError, match="feature level 8") as caught:
                await work
            assert caught.value.code is Code.INVALID_CONFIGURATION
        hall.replica = None
        await configure_topic(hall, "u", TIGHT)
        assert house.wings[1].partition("u").options.archive_required

    live(play)

"""Queues over topics: with a filter only what fits stands in them; retention follows the queue's settings."""

from __future__ import annotations

import msgspec

from longhall.errors import Code
from longhall.queues.settings import QueueSettings
from tests.broker.queues.rig import KEEP, Queues, Rig

OSLO = QueueSettings(filter="city = 'Oslo'")


def test_a_queue_over_a_topic_takes_what_fits_its_filter() -> None:
    rig = Rig()

    async def first(queues: Queues) -> None:
        await queues.desk.create("all", QueueSettings())
        await queues.send("all", "r1", attributes={"city": "Rome"})
        await queues.send("all", "o1", attributes={"city": "Oslo"})
        await queues.desk.declare("oslo", "all", OSLO)
        await queues.send("all", "r2", attributes={"city": "Rome"})
        await queues.send("all", "o2", attributes={"city": "Oslo"})
        assert await queues.bodies("oslo", 1) == ["o1"]

    async def second(queues: Queues) -> None:
        assert await queues.drain("oslo") == ["o2"]
        assert await queues.drain("all") == ["r1", "o1", "r2", "o2"]
        await queues.desk.configure("oslo", msgspec.structs.replace(OSLO, filter=""))
        await queues.send("all", "r3", attributes={"city": "Rome"})
        assert await queues.drain("oslo") == ["r3"]

    rig.live(first)
    rig.live(second)


def test_a_fork_may_have_a_filter() -> None:
    async def play(queues: Queues) -> None:
        await queues.desk.create("q", KEEP)
        await queues.send("q", "r1", attributes={"city": "Rome"})
        await queues.send("q", "o1", attributes={"city": "Oslo"})
        await queues.drain("q")
        await queues.desk.fork("q", "oslo", "start", OSLO)
        assert await queues.drain("oslo") == ["o1"]

    Rig().live(play)


def test_a_filter_elsewhere_or_without_sense_is_refused() -> None:
    async def play(queues: Queues) -> None:
        desk = queues.desk
        assert await queues.refused(desk.create("q", OSLO)) is Code.INVALID_CONFIGURATION
        await desk.create("q", QueueSettings())
        assert await queues.refused(desk.configure("q", OSLO)) is Code.INVALID_CONFIGURATION
        wrong = QueueSettings(filter="city =")
        assert await queues.refused(desk.declare("d", "q", wrong)) is Code.INVALID_REQUEST
        await desk.declare("d", "q", OSLO)
        assert await queues.refused(desk.configure("d", wrong)) is Code.INVALID_REQUEST

    Rig().live(play)


def test_retention_is_that_of_the_queue_from_the_moment_it_is_changed() -> None:
    rig = Rig()

    async def first(queues: Queues) -> None:
        await queues.desk.create("q", msgspec.structs.replace(KEEP, retention_ms=3_600_000))
        assert queues.life.partition("q").options.retention_ms == 3_600_000
        await queues.desk.configure("q", msgspec.structs.replace(KEEP, retention_ms=60_000))

    async def second(queues: Queues) -> None:
        assert queues.life.partition("q").options.retention_ms == 60_000

    rig.live(first)
    rig.live(second)

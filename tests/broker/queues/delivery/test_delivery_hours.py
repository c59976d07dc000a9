"""Delivery hours: receivers that wait get messages when the hours open, in the time zone of the queue."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from longhall.broker.queues.delivery.receive_any import WeightedWish
from longhall.broker.queues.delivery.time_zones import local_offset, opens_ms
from longhall.errors import Code, LonghallError
from longhall.queues.hours import read_hours
from longhall.queues.messages import Delivery
from longhall.queues.settings import QueueSettings
from tests.broker.queues.rig import Queues, Rig

BERLIN = ZoneInfo("Europe/Berlin")


def ms(year: int, month: int, day: int, hour: int, minute: int = 0) -> int:
    """A time in Berlin as hall time."""
    return int(datetime(year, month, day, hour, minute, tzinfo=BERLIN).timestamp() * 1000)


def test_hours_of_a_time_zone_follow_its_summer_time() -> None:
    hours = read_hours("08:00-09:00 Europe/Berlin")
    assert opens_ms(hours, ms(2027, 3, 27, 10)) == ms(2027, 3, 28, 8)  # The night in which clocks go forward: 21 h.
    assert ms(2027, 3, 28, 8) - ms(2027, 3, 27, 10) == 21 * 3_600_000
    assert opens_ms(hours, ms(2027, 10, 30, 10)) == ms(2027, 10, 31, 8)
    assert ms(2027, 10, 31, 8) - ms(2027, 10, 30, 10) == 23 * 3_600_000


def test_an_unknown_time_zone_is_refused() -> None:
    for zone in ("Europe/Bergamot", "../etc/passwd", "Europe", "/etc/localtime"):
        with pytest.raises(LonghallError, match="does not know the time zone"):
            local_offset(zone)

    async def play(queues: Queues) -> None:
        hours = read_hours("08:00-09:00 Europe/Bergamot")
        assert await queues.refused(queues.desk.create("q", QueueSettings(hours=hours))) is Code.INVALID_CONFIGURATION
        await queues.desk.create("q", QueueSettings())
        changed = queues.desk.configure("q", QueueSettings(hours=hours))
        assert await queues.refused(changed) is Code.INVALID_CONFIGURATION

    Rig().live(play)


def window_from(now_ms: int, ahead_s: int) -> str:
    """An hour from this far ahead on, in Berlin."""
    begin = datetime.fromtimestamp(now_ms / 1000, UTC).astimezone(BERLIN) + timedelta(seconds=ahead_s)
    end = begin + timedelta(hours=1)
    return f"{begin:%H:%M}-{end:%H:%M} Europe/Berlin"


def test_waiting_receivers_wake_when_the_hours_open() -> None:
    async def play(queues: Queues) -> None:
        now_ms = queues.life.hall.time.now_ms
        hours = read_hours(window_from(now_ms(), 300))
        opens = opens_ms(hours, now_ms())
        await queues.desk.create("q", QueueSettings(hours=hours))
        await queues.desk.create("other", QueueSettings())
        await queues.send("q", "one", "two", "three")
        assert await queues.bodies("q") == []
        waiting = [asyncio.ensure_future(_received(queues)) for _ in range(2)]
        weighted = asyncio.ensure_future(queues.desk.receive_any({"q": 1, "other": 1}, WeightedWish(1, 600_000, -1)))
        await asyncio.sleep((opens - now_ms()) / 1000 - 1)
        assert not any(one.done() for one in [*waiting, weighted])
        found = [(await one)[0].body for one in waiting]
        found.append((await weighted)[0][1].body)
        assert sorted(found) == [b"one", b"three", b"two"]
        assert 0 <= now_ms() - opens < 1000

    Rig().live(play)


def test_waiting_receivers_wake_when_the_hours_are_lifted() -> None:
    async def play(queues: Queues) -> None:
        hours = read_hours(window_from(queues.life.hall.time.now_ms(), 7200))
        await queues.desk.create("q", QueueSettings(hours=hours))
        await queues.send("q", "one")
        waiting = asyncio.ensure_future(_received(queues))
        await asyncio.sleep(1)
        await queues.desk.configure("q", QueueSettings())
        assert (await asyncio.wait_for(waiting, 1))[0].body == b"one"

    Rig().live(play)


async def _received(queues: Queues) -> list[Delivery]:
    return await queues.desk.receive("q", 1, 600_000, 60_000)

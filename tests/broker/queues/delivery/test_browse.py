"""Peek and search: everything is seen with its state, and nothing is taken."""

from __future__ import annotations

import asyncio

import pytest

from longhall.broker.queues.delivery import browse
from longhall.errors import Code
from longhall.queues.messages import Page, Seen
from longhall.queues.settings import QueueSettings, RetryPolicy
from tests.broker.queues.rig import KEEP, Queues, Rig


def told(page: Page) -> list[tuple[str, str]]:
    return [(seen.delivery.body.decode(), seen.state) for seen in page.messages]


async def every(queues: Queues, name: str, count: int, **options: bool) -> list[Seen]:
    """All pages together."""
    found: list[Seen] = []
    page = await queues.desk.inspection.peek(name, count, **options)
    found.extend(page.messages)
    while page.next:
        page = await queues.desk.inspection.peek(name, count, page.next, **options)
        found.extend(page.messages)
    return found


def test_each_message_is_shown_with_its_state_and_stays() -> None:
    rig = Rig()

    async def first(queues: Queues) -> None:
        await queues.desk.create("q", QueueSettings(retry=RetryPolicy(first_ms=60_000)))
        await queues.send("q", "settled", "leased", "given back", "waiting")
        await queues.send("q", "later", delay_ms=3_600_000)
        settled, _, back = await queues.receive("q", 3, 120_000)
        await queues.desk.settle("q", [settled.receipt])
        await queues.desk.change_lease("q", [(back.receipt, 0)])
        await look(queues)

    async def look(queues: Queues) -> None:
        page = await queues.desk.inspection.peek("q", 100)
        assert told(page) == [
            ("leased", "leased"),
            ("given back", "delayed"),
            ("waiting", "waiting"),
            ("later", "delayed"),
        ]
        assert page.next == ""
        now_ms = queues.life.hall.time.now_ms()
        assert all(seen.until_ms > now_ms for seen in page.messages if seen.state != "waiting")
        assert [seen.delivery.attempts for seen in page.messages] == [1, 1, 0, 0]
        assert [seen.delivery.receipt for seen in page.messages] == ["", "", "", ""]
        assert [seen.offset for seen in page.messages] == [1, 2, 3, -1]

    async def last(queues: Queues) -> None:
        await look(queues)
        assert await queues.bodies("q") == ["waiting"]

    rig.live(first)
    rig.live(last)


@pytest.mark.parametrize("cold", [0.0, 0.5])
def test_pages_cover_the_queue(cold: float) -> None:
    rig = Rig(cold=cold)
    sent = [f"{number:05}" + "x" * 3000 for number in range(150)]

    async def first(queues: Queues) -> None:
        await queues.desk.create("q", QueueSettings())
        await queues.send("q", *sent)
        await queues.send("q", "delayed", delay_ms=60_000)
        for partition in queues.life.hall.partitions.values():
            queues.life.hall.flush_tail(partition)

    async def second(queues: Queues) -> None:
        found = await every(queues, "q", 17)
        assert [seen.delivery.body.decode() for seen in found] == [*sent, "delayed"]
        page = await queues.desk.inspection.peek("q", 3, 148)
        assert [seen.offset for seen in page.messages] == [148, 149, -1]

    rig.live(first)
    rig.live(second)


def test_settled_messages_are_shown_on_request() -> None:
    async def play(queues: Queues) -> None:
        await queues.desk.create("q", KEEP)
        await queues.send("q", "a", "b")
        await queues.drain("q")
        assert told(await queues.desk.inspection.peek("q", 10)) == []
        assert told(await queues.desk.inspection.peek("q", 10, settled=True)) == [("a", "settled"), ("b", "settled")]

    Rig().live(play)


def test_leases_are_listed_without_reading_waiting_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(browse, "LOOKED_AT_MAX", 600)

    async def play(queues: Queues) -> None:
        await queues.desk.create("q", QueueSettings())
        for _ in range(40):
            await queues.send("q", *(f"m{number}" for number in range(50)))
        await queues.desk.receive("q", 2, 0, 60_000, "")
        settled = await queues.desk.receive("q", 1, 0, 60_000, "")
        await queues.desk.settle("q", [settled[0].receipt])
        page = await queues.desk.inspection.leased("q", 10)
        assert [(seen.offset, seen.state, seen.delivery.attempts) for seen in page.messages] == [
            (0, "leased", 1),
            (1, "leased", 1),
        ]
        assert page.next == ""
        assert (await queues.desk.inspection.leased("q", 1)).next != ""

    Rig().live(play)


def test_search_by_attributes_by_body_and_by_time() -> None:
    async def play(queues: Queues) -> None:
        await queues.desk.create("q", QueueSettings())
        await queues.send("q", "to the north", attributes={"city": "Oslo"})
        await asyncio.sleep(100)
        between_ms = queues.life.hall.time.now_ms()
        await asyncio.sleep(100)
        await queues.send("q", "to the south", attributes={"city": "Rome"})
        await queues.send("q", "south again", attributes={"city": "Oslo"}, delay_ms=60_000)

        async def found(**sought: object) -> list[str]:
            page = await queues.desk.inspection.search("q", **sought)  # type: ignore[arg-type]
            return [seen.delivery.body.decode() for seen in page.messages]

        assert await found(filter="city = 'Oslo'") == ["to the north", "south again"]
        assert await found(filter='{"city": ["Rome"]}') == ["to the south"]
        assert await found(text="south") == ["to the south", "south again"]
        assert await found(until_ms=between_ms) == ["to the north"]
        assert await found(from_ms=between_ms, text="to the") == ["to the south"]
        assert queues.desk.depth("q").available == 2

    Rig().live(play)


def test_a_page_is_bounded_and_has_the_next_position(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(browse, "LOOKED_AT_MAX", 40)

    async def play(queues: Queues) -> None:
        await queues.desk.create("q", QueueSettings())
        await queues.send("q", *(str(number) for number in range(100)))
        page = await queues.desk.inspection.search("q", text="99")
        looks = 1
        while not page.messages:
            assert page.looked_at <= 40
            page = await queues.desk.inspection.search("q", text="99", from_offset=page.next)
            looks += 1
        assert (looks, told(page)) == (3, [("99", "waiting")])

    Rig().live(play)


def test_invalid_positions_and_filters_are_refused() -> None:
    async def play(queues: Queues) -> None:
        await queues.desk.create("q", QueueSettings())
        desk = queues.desk
        assert await queues.refused(desk.inspection.peek("none", 1)) is Code.UNKNOWN_QUEUE
        for count in (0, browse.COUNT_MAX + 1):
            assert await queues.refused(desk.inspection.peek("q", count)) is Code.INVALID_REQUEST
        for place in ("x", "1:2:3", ":", "-1", "9" * 30, -1):
            assert await queues.refused(desk.inspection.peek("q", 1, place)) is Code.INVALID_REQUEST
        assert await queues.refused(desk.inspection.search("q", filter="city =")) is Code.INVALID_REQUEST
        assert await queues.refused(desk.inspection.search("q", text="x" * 2000)) is Code.INVALID_REQUEST

    Rig().live(play)

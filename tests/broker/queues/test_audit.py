"""The audit topic: every delivery, settle, return and death of a queue, no more and no less, whatever crashes."""

from __future__ import annotations

import asyncio
import random
from collections import Counter

import msgspec
import pytest

from longhall.broker.checkpoint import checkpoint
from longhall.broker.queues.service import QueueService
from longhall.errors import Code, LonghallError
from longhall.queues.messages import Outgoing
from longhall.queues.settings import DeadLetters, QueueSettings, RetryPolicy
from tests.broker import desk as host
from tests.broker.desk import Life
from tests.broker.queues.letterbox import all_letters, audit, cut_finely, fail, live, moved, receive, records, send

AUDITED = QueueSettings(audit="deliveries", dead_letters=DeadLetters(queue="dead", attempts_max=3))


def test_an_audit_record_has_all_fields() -> None:
    async def play(life: Life, desk: QueueService) -> None:
        await desk.create("dead", QueueSettings())
        await desk.create("work", AUDITED)
        began_ms = life.hall.time.now_ms()
        (sent,) = await send(desk, "work", b"body", group="g")
        (one,) = await desk.receive("work", 1, 0, 5000, "", consumer="carol")
        assert await desk.change_lease("work", [(one.receipt, 0)], "carol") == [None]
        (two,) = await desk.receive("work", 1, 0, 5000, "", consumer="dave")
        assert await desk.settle("work", [two.receipt], "dave") == [None]
        await life.sync()
        delivered, returned, again, settled = audit(life, "work")
        (lane,) = life.hall.queues[life.hall.catalogue.queues.by_name["work"].number].lanes
        for record in (delivered, returned, again, settled):
            assert (record.version, record.queue, record.message_id) == (1, "work", sent)
            assert (record.lane, record.offset, record.size_bytes, record.group) == (lane, 0, 4, "g")
            assert began_ms <= record.sent_ms <= record.time_ms
        kinds = [(one.kind, one.attempt, one.consumer, one.reason) for one in (delivered, returned, again, settled)]
        assert kinds == [
            ("delivered", 1, "carol", ""),
            ("returned", 1, "carol", ""),
            ("delivered", 2, "dave", ""),
            ("settled", 2, "dave", ""),
        ]
        assert delivered.until_ms == delivered.time_ms + 5000
        assert returned.until_ms == returned.time_ms
        (first, *_) = records(life, "work.deliveries")
        assert first.key == sent.encode()
        assert msgspec.json.decode(first.value or b"")["kind"] == "delivered"

    live(play)


def test_deaths_moves_purges_and_rewinds_are_audited() -> None:
    async def play(life: Life, desk: QueueService) -> None:
        desk.start()
        await desk.create("dead", QueueSettings(audit="deliveries"))
        await desk.create("work", msgspec.structs.replace(AUDITED, settled="keep"))
        await send(desk, "work", b"body")
        await fail(desk, "work", 3)
        await desk.start_move("dead", "", 0)
        await moved(desk, "dead")
        (letter,) = await all_letters(desk, "work")
        await desk.inspection.edit_letter("work", letter.message_id, b"edited")
        await desk.purge("work")
        await desk.rewind("work", "start")
        found = audit(life, "work")
        died = found[6]
        assert (died.kind, died.reason, died.target, died.attempt) == ("died", "attempts", "dead", 3)
        assert [(one.kind, one.reason, one.offset) for one in found[7:]] == [
            ("moved", "edited", 1),
            ("purged", "", 3),
            ("rewound", "", 0),
        ]
        (redriven,) = [one for one in audit(life, "dead") if one.kind == "moved"]
        assert (redriven.reason, redriven.target) == ("redriven", "work")
        await desk.stop()

    live(play)


def test_at_most_once_is_audited_as_delivered_and_settled() -> None:
    async def play(life: Life, desk: QueueService) -> None:
        await desk.create("work", QueueSettings(audit="deliveries", delivery="at-most-once"))
        await send(desk, "work", b"1", b"2")
        await receive(desk, "work")
        assert Counter(one.kind for one in audit(life, "work")) == {"delivered": 2, "settled": 2}

    live(play)


def test_a_queue_without_audit_has_no_topic_and_no_cache() -> None:
    async def play(life: Life, desk: QueueService) -> None:
        await desk.create("work", QueueSettings())
        await send(desk, "work", b"1", b"2")
        taken = await receive(desk, "work")
        queue = life.hall.running_queue("work")
        assert queue is not None
        assert len(queue.delivery_cache) == 0
        await desk.settle("work", [one.receipt for one in taken])
        assert life.hall.topic("work.deliveries") is None
        await desk.configure("work", QueueSettings(audit="deliveries"))
        await send(desk, "work", b"3")
        await receive(desk, "work")
        assert [one.kind for one in audit(life, "work")] == ["delivered"]

    live(play)


def test_a_deleted_audit_topic_is_created_again() -> None:
    async def play(life: Life, desk: QueueService) -> None:
        from longhall.broker.topic_administration import delete_topic

        await desk.create("work", QueueSettings(audit="deliveries"))
        await delete_topic(life.hall, "work.deliveries")
        await send(desk, "work", b"1")
        await receive(desk, "work")
        assert [one.kind for one in audit(life, "work")] == ["delivered"]

    live(play)


# Random histories

WORK = QueueSettings(
    audit="deliveries",
    settled="keep",
    retry=RetryPolicy(first_ms=20, longest_ms=100),
    dead_letters=DeadLetters(queue="dead", attempts_max=3),
)


class Crowd:
    """Producers and consumers that do whatever comes to their mind, until the power goes."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.refusals: set[Code] = set()

    async def act(self, life: Life, desk: QueueService) -> None:
        if desk.view("work") is None:
            for name in ("dead", "replies"):
                if desk.view(name) is None:
                    await desk.create(name, QueueSettings())
            await desk.create("work", WORK)
        desk.start()
        await asyncio.gather(self.produce(desk), *(self.consume(desk) for _ in range(3)), self.edit(desk))
        if self.chance.random() < 0.5:
            await checkpoint(life.hall)
        await desk.stop()

    async def produce(self, desk: QueueService) -> None:
        for number in range(self.chance.randrange(5, 25)):
            await send(desk, "work", b"%d" % number, reply_to="replies", report_fate=True)
            await asyncio.sleep(self.chance.random() / 50)

    async def consume(self, desk: QueueService) -> None:
        for _ in range(self.chance.randrange(5, 25)):
            for one in await receive(desk, "work", self.chance.randrange(1, 5), self.chance.choice((5, 1000))):
                what = self.chance.choice(("settle", "return", "answer", "forget"))
                try:
                    if what == "settle":
                        await desk.settle("work", [one.receipt])
                    elif what == "return":
                        await desk.change_lease("work", [(one.receipt, 0)])
                    elif what == "answer":
                        await desk.answer("work", one.receipt, Outgoing(body=b"answer"))
                except LonghallError as error:
                    self.refusals.add(error.code)
            await asyncio.sleep(self.chance.random() / 50)

    async def edit(self, desk: QueueService) -> None:
        for _ in range(5):
            page = await desk.inspection.letters("work", 10)
            if page.letters:
                try:
                    await desk.inspection.edit_letter("work", self.chance.choice(page.letters).message_id, b"edited")
                except LonghallError as error:
                    self.refusals.add(error.code)
            await asyncio.sleep(self.chance.random() / 20)

    async def check(self, life: Life, desk: QueueService) -> int:
        """What the topics say is what happened to each message. Returns how many messages there were."""
        queue = life.hall.running_queue("work")
        if queue is None:
            return 0
        (lane,) = queue.lanes
        found = audit(life, "work")
        deliveries = Counter(one.offset for one in found if one.kind == "delivered")
        ends = Counter(one.offset for one in found if one.kind in ("settled", "died", "moved"))
        total = queue.lanes[lane].high_watermark
        for offset in range(total):
            lease = queue.queue.lease_of(lane, offset)
            if lease is not None or not queue.queue.cursor(lane).is_settled(offset):
                assert ends[offset] == 0, (offset, found)
                assert deliveries[offset] == (lease[2] if lease is not None else 0), (offset, found)
            else:
                assert ends[offset] == 1, (offset, found)
        assert max(deliveries, default=-1) < total
        kinds = Counter(one.kind for one in found)
        assert len(records(life, "dead")) == kinds["died"]
        assert len(records(life, "replies")) == kinds["settled"] + kinds["died"]
        waits = [one for one in found if one.kind == "returned" and one.until_ms > one.time_ms]
        assert len(records(life, "work.retry")) == len(waits)
        return total


@pytest.mark.parametrize("seed", range(15))
def test_after_any_crash_the_audit_topic_matches_the_events(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    cut_finely(monkeypatch)
    chance = random.Random(seed)
    on = host.Desk(seed=seed)
    connections = Crowd(seed)
    for _ in range(4):
        on.host.faults.cut_after_changes = chance.choice((-1, chance.randrange(60), chance.randrange(300)))
        live(connections.act, on, end=chance.choice(("kill", "cut")))
        on.host.faults.cut_after_changes = -1
        total = live(connections.check, on)
    assert total > 0
    assert connections.refusals <= {Code.RECEIPT_SUPERSEDED, Code.MESSAGE_LEASED, Code.UNKNOWN_MESSAGE}

"""Answers and fates: what a sender hears of its message, in the same step as it happens."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from longhall.broker.checkpoint import checkpoint
from longhall.broker.queues.service import QueueService
from longhall.errors import Code
from longhall.queues.delivery_reports import DeliveryReport
from longhall.queues.messages import Delivery, Outgoing
from longhall.queues.settings import DeadLetters, QueueSettings
from tests.broker import desk as host
from tests.broker.desk import Life
from tests.broker.queues.letterbox import cut_finely, fail, live, receive, refused, send, sent_letters

ASKING = {"reply_to": "replies", "correlation_id": "c-1", "report_fate": True}


async def make(desk: QueueService, **settings: Any) -> None:
    await desk.create("replies", QueueSettings())
    await desk.create("work", QueueSettings(**settings))


def fate(delivery: Delivery) -> DeliveryReport:
    return msgspec.json.decode(delivery.body, type=DeliveryReport)


def test_an_answer_reaches_the_reply_queue_and_settles_the_request() -> None:
    async def play(life: Life, desk: QueueService) -> None:
        await make(desk)
        await send(desk, "work", b"what?", reply_to="replies", correlation_id="c-1")
        (request,) = await receive(desk, "work")
        assert (request.reply_to, request.correlation_id) == ("replies", "c-1")
        accepted = await desk.answer("work", request.receipt, Outgoing(body=b"that"))
        (reply,) = await sent_letters(desk, "replies")
        assert (reply.body, reply.correlation_id, reply.message_id) == (b"that", "c-1", accepted.message_id)
        assert reply.fate == ""
        assert await desk.settle("work", [request.receipt]) == [None]  # As whatever is settled already.
        again = await desk.answer("work", request.receipt, Outgoing(body=b"that"))
        assert again.repeated
        assert len(await sent_letters(desk, "replies")) == 1
        assert desk.depth("work").in_flight == desk.depth("work").available == 0

    live(play)


def test_the_message_id_is_the_default_correlation_id() -> None:
    async def play(life: Life, desk: QueueService) -> None:
        await make(desk)
        ids = await send(desk, "work", b"one", b"two", reply_to="replies", report_fate=True)
        one, two = await receive(desk, "work")
        await desk.answer("work", one.receipt, Outgoing(body=b"answer"))
        await desk.settle("work", [two.receipt])
        replies = await sent_letters(desk, "replies")
        assert [reply.correlation_id for reply in replies] == ids
        assert [reply.fate for reply in replies] == ["", "settled"]  # An answer stands for the fate.

    live(play)


def test_a_refused_answer_changes_nothing() -> None:
    async def play(life: Life, desk: QueueService) -> None:
        await make(desk)
        await desk.create("other", QueueSettings())
        await send(desk, "work", b"mute")
        await send(desk, "work", b"lost", reply_to="gone")
        await send(desk, "work", b"large", reply_to="replies")
        mute, lost, large = await receive(desk, "work")
        assert await refused(desk.answer("work", mute.receipt, Outgoing(body=b""))) is Code.INVALID_REQUEST
        assert await refused(desk.answer("work", lost.receipt, Outgoing(body=b""))) is Code.UNKNOWN_QUEUE
        too_large = Outgoing(body=bytes(300_000))
        assert await refused(desk.answer("work", large.receipt, too_large)) is Code.MESSAGE_TOO_LARGE
        assert await refused(desk.answer("other", large.receipt, Outgoing(body=b""))) is Code.INVALID_RECEIPT
        assert await refused(desk.answer("work", "nonsense", Outgoing(body=b""))) is Code.INVALID_RECEIPT
        assert desk.depth("work").in_flight == 3
        assert desk.depth("replies").available == 0
        await desk.change_lease("work", [(large.receipt, 0)])
        (again,) = await receive(desk, "work")
        assert await refused(desk.answer("work", large.receipt, Outgoing(body=b""))) is Code.RECEIPT_SUPERSEDED
        await desk.answer("work", again.receipt, Outgoing(body=b"now"))

    live(play)


def test_answers_to_a_fifo_queue_have_group_and_deduplication_id() -> None:
    async def play(life: Life, desk: QueueService) -> None:
        await desk.create("replies", QueueSettings(fifo=True, deduplication="id"))
        await desk.create("work", QueueSettings())
        await send(desk, "work", b"one", b"two", **ASKING)
        one, two = await receive(desk, "work")
        await desk.answer("work", one.receipt, Outgoing(body=b"first"))
        await desk.settle("work", [two.receipt])
        assert [reply.fate for reply in await sent_letters(desk, "replies")] == ["", "settled"]

    live(play)


def test_every_fate_is_reported_with_its_reason() -> None:
    async def play(life: Life, desk: QueueService) -> None:
        await make(desk, dead_letters=DeadLetters(queue="dead", attempts_max=2))
        await desk.create("dead", QueueSettings())
        await desk.create("short", QueueSettings(messages_max=1, when_full="drop-oldest"))
        (sent,) = await send(desk, "work", b"fails", **ASKING)
        await fail(desk, "work")
        await send(desk, "work", b"late", time_to_live_ms=10, **ASKING)
        await send(desk, "short", b"late", time_to_live_ms=10, **ASKING)
        await asyncio.sleep(0.05)
        assert await receive(desk, "work") == []
        assert await receive(desk, "short") == []
        await send(desk, "short", b"squeezed", **ASKING)
        await send(desk, "short", b"last")
        found = [fate(one) for one in await sent_letters(desk, "replies")]
        assert [(one.fate, one.reason, one.queue, one.attempts) for one in found] == [
            ("dead-lettered", "attempts", "work", 2),
            ("dead-lettered", "expired", "work", 0),
            ("expired", "expired", "short", 0),
            ("failed", "length", "short", 0),
        ]
        assert found[0].message_id == sent
        assert {one.correlation_id for one in found} == {"c-1"}

    live(play)


def test_at_most_once_delivery_reports_settled() -> None:
    async def play(life: Life, desk: QueueService) -> None:
        await make(desk, delivery="at-most-once")
        await send(desk, "work", b"one", **ASKING)
        await send(desk, "work", b"silent", reply_to="replies")
        assert len(await receive(desk, "work")) == 2
        (told,) = await sent_letters(desk, "replies")
        assert (told.fate, fate(told).attempts) == ("settled", 1)

    live(play)


def test_a_missing_or_full_reply_queue_blocks_nothing() -> None:
    async def play(life: Life, desk: QueueService) -> None:
        await desk.create("replies", QueueSettings(messages_max=1))
        await desk.create("work", QueueSettings())
        await send(desk, "work", b"one", b"two", **ASKING)
        await send(desk, "work", b"three", reply_to="nowhere", report_fate=True)
        taken = await receive(desk, "work")
        assert await desk.settle("work", [one.receipt for one in taken]) == [None] * 3
        assert len(await sent_letters(desk, "replies")) == 1
        queue = life.hall.running_queue("work")
        assert queue is not None
        assert (queue.fates, queue.fates_lost) == ({"settled": 1}, 2)

    live(play)


def test_a_settle_after_a_restart_is_reported() -> None:
    on = host.Desk()
    on.host.faults.cold_read_chance = 0.5

    async def play(life: Life, desk: QueueService) -> str:
        await make(desk)
        await send(desk, "work", b"one", **ASKING)
        (one,) = await receive(desk, "work")
        await checkpoint(life.hall)
        return one.receipt

    async def rest(life: Life, desk: QueueService) -> list[str]:
        assert await desk.settle("work", [receipt]) == [None]
        return [one.fate for one in await sent_letters(desk, "replies")]

    receipt = live(play, on, end="cut")
    assert live(rest, on) == ["settled"]


async def _one_request(desk: QueueService) -> str:
    (one,) = await receive(desk, "work")
    return one.receipt


@pytest.mark.parametrize("verb", ["answer", "settle", "die"])
@pytest.mark.parametrize("changes", range(5))
@pytest.mark.parametrize("seed", range(4))
def test_a_crash_at_any_time_leaves_answer_and_settle_or_neither(
    verb: str, changes: int, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The request is still there, or its reply queue has heard of it; never both, never neither, never twice."""
    cut_finely(monkeypatch)
    on = host.Desk(seed=seed)

    async def before(life: Life, desk: QueueService) -> str:
        await make(desk, dead_letters=DeadLetters(queue="dead", attempts_max=1))
        await desk.create("dead", QueueSettings())
        await send(desk, "work", b"what?", **ASKING)
        receipt = await _one_request(desk)
        if verb == "die":
            await desk.change_lease("work", [(receipt, 0)])
        await checkpoint(life.hall)
        return receipt

    async def act(life: Life, desk: QueueService) -> bool:
        on.host.faults.cut_after_changes = changes
        if verb == "answer":
            await desk.answer("work", receipt, Outgoing(body=b"that"))
        elif verb == "settle":
            await desk.settle("work", [receipt])
        else:
            await receive(desk, "work")
            await life.sync()
        return True

    async def after(life: Life, desk: QueueService) -> tuple[int, int, int]:
        queue = life.hall.running_queue("work")
        assert queue is not None
        return queue.queue.state.messages, desk.depth("replies").available, desk.depth("dead").available

    receipt = live(before, on)
    told = live(act, on, end="cut")
    on.host.faults.cut_after_changes = -1
    found = live(after, on)
    done = (0, 1, 1 if verb == "die" else 0)
    assert found == done or (not told and found == (1, 0, 0))

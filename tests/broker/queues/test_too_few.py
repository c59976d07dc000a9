"""A message committed by too few replicas is refused, for the sender and for repeats."""

from __future__ import annotations

from longhall.broker.queues.service import QueueService
from longhall.errors import Code
from longhall.queues.messages import Outgoing
from longhall.queues.settings import QueueSettings
from tests.broker.desk import Life
from tests.broker.queues.letterbox import live, receive, refused, send
from tests.doors.two_nodes import Told

TOO_FEW = Code.NOT_ENOUGH_REPLICAS_AFTER_APPEND


def be_short(life: Life) -> None:
    life.hall.leadership = Told(1, {})
    life.hall.is_short = True


def test_a_repeated_send_is_refused_until_enough_replicas_are_back() -> None:
    async def play(life: Life, desk: QueueService) -> None:
        await desk.create("safe", QueueSettings(deduplication="id"))
        be_short(life)
        message = Outgoing(body=b"x", deduplication_id="1")
        assert await refused(desk.send("safe", [message])) is TOO_FEW
        assert await refused(desk.send("safe", [message])) is TOO_FEW
        life.hall.is_short = False
        (accepted,) = await desk.send("safe", [message])
        assert accepted.repeated
        assert len(await receive(desk, "safe")) == 1

    live(play)


def test_one_host_suffices_with_acknowledge_one() -> None:
    async def play(life: Life, desk: QueueService) -> None:
        await desk.create("fast", QueueSettings(acknowledge="one"))
        be_short(life)
        assert len(await send(desk, "fast", b"x")) == 1

    live(play)


def test_a_repeated_finish_of_an_upload_is_refused_too() -> None:
    async def play(life: Life, desk: QueueService) -> None:
        await desk.create("large", QueueSettings(whole_bytes_max=1 << 24))
        upload = await desk.begin("large")
        await desk.add("large", upload, 0, b"x" * 1000)
        be_short(life)
        for _ in range(2):
            assert await refused(desk.finish("large", upload, 1, Outgoing(body=b""))) is TOO_FEW
        life.hall.is_short = False
        assert (await desk.finish("large", upload, 1, Outgoing(body=b""))).repeated

    live(play)


def test_a_repeated_answer_is_refused_too() -> None:
    async def play(life: Life, desk: QueueService) -> None:
        await desk.create("replies", QueueSettings())
        await desk.create("work", QueueSettings())
        await send(desk, "work", b"what?", reply_to="replies")
        (request,) = await receive(desk, "work")
        be_short(life)
        for _ in range(2):
            assert await refused(desk.answer("work", request.receipt, Outgoing(body=b"that"))) is TOO_FEW
        life.hall.is_short = False
        assert (await desk.answer("work", request.receipt, Outgoing(body=b"that"))).repeated
        assert len(await receive(desk, "replies")) == 1

    live(play)

"""Messages larger than the limit: whole or not at all, through every step and every death; freed when done with."""

from __future__ import annotations

from longhall.broker.queues.desk import Desk as Queues
from longhall.queues.messages import Delivery, Outgoing
from longhall.queues.settings import QueueSettings
from tests.broker.desk import Desk, Life

SETTINGS = QueueSettings(message_bytes_max=4096, whole_bytes_max=4 * 1024 * 1024)
BODY = bytes(range(256)) * 10_000  # Three parts.


async def one(queues: Queues, name: str = "q", lease_ms: int = 30_000) -> Delivery:
    found = await queues.receive(name, 10, 0, lease_ms, "")
    assert len(found) == 1
    return found[0]


def test_a_large_message_comes_out_as_it_went_in() -> None:
    async def play(life: Life) -> None:
        queues = Queues(life.hall)
        await queues.create("q", SETTINGS)
        sent = (await queues.send("q", [Outgoing(body=BODY, attributes={"a": ("String", b"x")})]))[0]
        assert sent.code is None
        got = await one(queues)
        assert (got.body, got.message_id, got.attributes) == (BODY, sent.message_id, {"a": ("String", b"x")})
        assert (await queues.settle("q", [got.receipt])) == [None]

    Desk().live(play)


def test_it_is_there_after_a_restart() -> None:
    desk = Desk()

    async def play(life: Life) -> None:
        queues = Queues(life.hall)
        await queues.create("q", SETTINGS)
        await queues.send("q", [Outgoing(body=BODY)])

    async def look(life: Life) -> None:
        assert (await one(Queues(life.hall), lease_ms=0)).body == BODY

    desk.live(play, end="cut")
    desk.live(look)

"""Moves of chosen messages: by their ids or by a filter, at a rate, over a crash; the others stay where they are."""

from __future__ import annotations

import asyncio

import pytest

from longhall.broker.checkpoint import checkpoint
from longhall.broker.queues.service import QueueService
from longhall.errors import Code
from longhall.queues.settings import DeadLetters, QueueSettings
from tests.broker import desk as host
from tests.broker.desk import Life
from tests.broker.queues.letterbox import all_letters, cut_finely, fail, live, moved, receive, refused, send

WORK = QueueSettings(dead_letters=DeadLetters(queue="dead", attempts_max=1))


async def make(desk: QueueService, count: int = 10, partitions: int = 1) -> list[str]:
    """So many dead letters, of which the odd ones are red; their ids."""
    await desk.create("dead", QueueSettings(partitions=partitions))
    await desk.create("work", WORK)
    ids: list[str] = []
    for number in range(count):
        colour = ("String", b"red" if number % 2 else b"blue")
        ids += await send(desk, "work", b"%d" % number, attributes={"colour": colour})
    while await receive(desk, "work", lease_ms=0):
        pass
    await fail(desk, "work", 0)
    return ids


async def bodies(desk: QueueService, name: str) -> list[int]:
    return sorted(int(one.body) for one in await all_letters(desk, name))


@pytest.mark.parametrize("partitions", [1, 3])
def test_only_named_messages_move(partitions: int) -> None:
    async def play(life: Life, desk: QueueService) -> None:
        ids = await make(desk, partitions=partitions)
        task = await desk.start_move("dead", "", 0, ids=[ids[2], ids[7], ids[2], "nobody"])
        assert task.ids == [ids[2], ids[7], "nobody"]
        await moved(desk, "dead")
        assert (desk.moves("dead")[0].state, desk.moves("dead")[0].moved) == ("COMPLETED", 2)
        assert await bodies(desk, "work") == [2, 7]
        assert await bodies(desk, "dead") == [0, 1, 3, 4, 5, 6, 8, 9]
        assert len(await receive(desk, "dead")) == 8

    live(play)


@pytest.mark.parametrize("filter", ['{"colour": ["red"]}', "colour = 'red'"])
def test_only_matching_messages_move(filter: str) -> None:
    async def play(life: Life, desk: QueueService) -> None:
        await make(desk)
        await desk.create("other", QueueSettings())
        await desk.start_move("dead", "other", 0, filter=filter)
        await moved(desk, "dead")
        assert await bodies(desk, "other") == [1, 3, 5, 7, 9]
        assert await bodies(desk, "dead") == [0, 2, 4, 6, 8]
        assert [int(one.body) for one in await receive(desk, "dead")] == [0, 2, 4, 6, 8]

    live(play)


def test_leased_messages_do_not_move() -> None:
    async def play(life: Life, desk: QueueService) -> None:
        ids = await make(desk)
        taken = await receive(desk, "dead", 3)
        assert [one.message_id for one in taken] == ids[:3]
        await desk.start_move("dead", "", 0, ids=ids[1:5])
        await moved(desk, "dead")
        assert await bodies(desk, "work") == [3, 4]
        assert await desk.settle("dead", [one.receipt for one in taken]) == [None] * 3

    live(play)


def test_an_invalid_filter_starts_no_task() -> None:
    async def play(life: Life, desk: QueueService) -> None:
        await make(desk, 1)
        assert await refused(desk.start_move("dead", "", 0, filter="colour = ")) is Code.INVALID_REQUEST
        many = [str(number) for number in range(1001)]
        assert await refused(desk.start_move("dead", "", 0, ids=many)) is Code.INVALID_REQUEST
        assert desk.moves("dead") == []

    live(play)


def test_a_paused_queue_is_moved_when_it_resumes() -> None:
    async def play(life: Life, desk: QueueService) -> None:
        await make(desk)
        await desk.switch("dead", True)
        await desk.start_move("dead", "", 0)
        await asyncio.sleep(2)
        assert desk.moves("dead")[0].state == "RUNNING"
        await desk.switch("dead", False)
        await moved(desk, "dead")
        assert desk.moves("dead")[0].moved == 10

    live(play)


@pytest.mark.parametrize("seed", range(10))
def test_a_task_resumes_after_a_crash_and_moves_each_message_once(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    cut_finely(monkeypatch)
    on = host.Desk(seed=seed)

    async def before(life: Life, desk: QueueService) -> list[str]:
        ids = await make(desk, 40)
        await checkpoint(life.hall)
        return ids

    async def act(life: Life, desk: QueueService) -> None:
        on.host.faults.cut_after_changes = seed
        await desk.start_move("dead", "", 100, ids=ids[5:25])
        await moved(desk, "dead")

    async def after(life: Life, desk: QueueService) -> None:
        desk.start()
        if not desk.moves("dead"):
            await desk.start_move("dead", "", 0, ids=ids[5:25])
        await moved(desk, "dead")
        assert await bodies(desk, "work") == list(range(5, 25))
        assert await bodies(desk, "dead") == [*range(5), *range(25, 40)]
        assert desk.moves("dead")[0].moved == 20
        await desk.stop()

    ids = live(before, on)
    live(act, on, end="cut")
    on.host.faults.cut_after_changes = -1
    live(after, on)

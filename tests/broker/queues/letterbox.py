"""The desk during one life of a hall on a simulated host, and what can be read beside it: letters, topics."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import msgspec
import pytest

from longhall.broker.queues.service import QueueService
from longhall.errors import Code, LonghallError
from longhall.queues.audit import Audited
from longhall.queues.messages import Delivery, Letter, Outgoing
from longhall.records.batch import read_records
from longhall.records.record import Record
from tests.broker import desk as host
from tests.broker.desk import Life, stored_batches


def cut_finely(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the log have a frame for every entry that is not held together with others, so that a death can part them."""
    monkeypatch.setattr("longhall.log.wal.FRAME_BYTES_MAX", 2)


def live(
    play: Callable[[Life, QueueService], Coroutine[Any, Any, Any]],
    on: host.Desk | None = None,
    end: str = "kill",
) -> Any:
    async def inside(life: Life) -> Any:
        return await play(life, QueueService(life.hall))

    return (on or host.Desk()).live(inside, end=end)


async def receive(desk: QueueService, name: str, count: int = 10, lease_ms: int = 30_000) -> list[Delivery]:
    return await desk.receive(name, count, 0, lease_ms, "")


async def send(desk: QueueService, name: str, *bodies: bytes, **fields: Any) -> list[str]:
    accepted = await desk.send(name, [Outgoing(body=body, **fields) for body in bodies])
    assert all(one.code is None for one in accepted), accepted
    return [one.message_id for one in accepted]


async def fail(desk: QueueService, name: str, times: int = 2) -> None:
    """Take everything so many times, in vain; the next look lets it die."""
    for _ in range(times):
        for one in await receive(desk, name):
            assert await desk.change_lease(name, [(one.receipt, 0)]) == [None]
    assert await receive(desk, name) == []
    await asyncio.sleep(0.05)  # What died has to be committed before anybody sees it.


async def refused(asked: Awaitable[Any]) -> Code:
    with pytest.raises(LonghallError) as caught:
        await asked
    return caught.value.code


async def all_letters(desk: QueueService, name: str, count: int = 100) -> list[Letter]:
    found: list[Letter] = []
    await asyncio.sleep(0.05)
    page = await desk.inspection.letters(name, count)
    found.extend(page.letters)
    while page.next_from:
        page = await desk.inspection.letters(name, count, page.next_from)
        found.extend(page.letters)
    return found


def records(life: Life, topic: str) -> list[Record]:
    """Everything that a Kafka consumer finds in a topic; nothing if there is none."""
    if life.hall.topic(topic) is None:
        return []
    return [record for _, batch in stored_batches(life.partition(topic)) for record in read_records(batch, 0)]


def audit(life: Life, queue: str) -> list[Audited]:
    """What the audit topic of a queue has."""
    found = [record.value for record in records(life, f"{queue}.deliveries")]
    return [msgspec.json.decode(value or b"", type=Audited) for value in found]


async def sent_letters(desk: QueueService, name: str) -> list[Delivery]:
    """Everything that is in a queue now, leased for a moment."""
    await asyncio.sleep(0.05)
    return await receive(desk, name, lease_ms=0)


async def moved(desk: QueueService, source: str) -> None:
    """Wait until no task moves the messages of this queue any more."""
    for _ in range(1000):
        if desk.moves(source)[0].state not in ("RUNNING", "CANCELLING"):
            return
        await asyncio.sleep(0.05)
    raise AssertionError(f"{desk.moves(source)[0]} does not end")

"""Messages that were leased and could not be shown: no attempt of theirs is used up unseen, whatever happens next."""

from __future__ import annotations

import asyncio
import errno
from typing import Any

import msgspec
import pytest

from longhall.broker.queues.delivery import withheld_messages
from longhall.broker.queues.large_messages import reassembly
from longhall.broker.queues.large_messages.reassembly import JOINED_BYTES_MAX
from longhall.broker.queues.large_messages.upload import PART_BYTES_MAX
from longhall.broker.queues.service import QueueService as Queues
from longhall.errors import Code, LonghallError
from longhall.queues.messages import Delivery, Outgoing
from longhall.queues.settings import DeadLetters, QueueSettings
from longhall.records.batch import read_records
from tests.broker.desk import Desk, Life, stored_batches

ATTEMPTS_MAX = 2
LETTERS = DeadLetters(queue="letters", attempts_max=ATTEMPTS_MAX)
SETTINGS = QueueSettings(message_bytes_max=4096, whole_bytes_max=64 * 1024 * 1024, dead_letters=LETTERS)
BODY = b"large" * 2000
LEASE_MS = 10_000


class Platter:
    """The disk under large messages: while it is `broken` none of them can be read."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.broken = False
        self.refused = 0
        good = reassembly.read_whole

        async def read(*arguments: Any) -> bytes:
            if self.broken:
                self.refused += 1
                raise OSError(errno.EIO, "the disk failed")
            return await good(*arguments)

        monkeypatch.setattr(reassembly, "read_whole", read)


@pytest.fixture
def platter(monkeypatch: pytest.MonkeyPatch) -> Platter:
    return Platter(monkeypatch)


async def opened(life: Life, settings: QueueSettings = SETTINGS) -> Queues:
    queues = Queues(life.hall)
    await queues.create("letters", QueueSettings(fifo=settings.fifo, whole_bytes_max=SETTINGS.whole_bytes_max))
    await queues.create("q", settings)
    return queues


async def take(queues: Queues, name: str = "q", in_parts: bool = True) -> list[Delivery]:
    return list(await queues.receive(name, 10, 0, LEASE_MS, "", in_parts=in_parts))


async def until_leases_end() -> None:
    await asyncio.sleep(LEASE_MS / 1000 + 0.001)


@pytest.mark.parametrize("priorities", [1, 3])
@pytest.mark.parametrize("end", ["kill", "cut"])
def test_unreadable_messages_lose_no_attempts(platter: Platter, end: str, priorities: int) -> None:
    desk = Desk()

    async def fail(life: Life) -> None:
        queues = await opened(life, msgspec.structs.replace(SETTINGS, priorities=priorities))
        top = priorities - 1
        await queues.send("q", [Outgoing(body=BODY, priority=top), Outgoing(body=b"small", priority=top)])
        platter.broken = True
        first = await take(queues)
        assert [(got.body, got.attempts) for got in first] == [(b"small", 1)], "the others are not held up"
        assert await queues.settle("q", [first[0].receipt]) == [None]
        for _ in range(ATTEMPTS_MAX + 1):
            assert await take(queues) == [], "it is hidden for as long as its lease was to be"
            await until_leases_end()
            assert await take(queues) == []
        assert platter.refused == ATTEMPTS_MAX + 2
        platter.broken = False

    async def go_on(life: Life) -> None:
        queues = Queues(life.hall)
        for attempt in range(1, ATTEMPTS_MAX + 1):
            await until_leases_end()
            assert [(got.body, got.attempts) for got in await take(queues)] == [(BODY, attempt)]
        await until_leases_end()
        assert await take(queues) == []
        await life.sync()
        (letter,) = await take(queues, "letters")
        assert (letter.body, letter.dead_letter_reason, letter.attempts_before) == (BODY, "attempts", ATTEMPTS_MAX)

    desk.live(fail, end=end)
    desk.live(go_on)


def test_later_messages_of_the_group_are_withheld_too(platter: Platter) -> None:
    async def play(life: Life) -> None:
        queues = await opened(life, msgspec.structs.replace(SETTINGS, fifo=True))
        bodies = {"a": [b"a0", BODY + b"a1", b"a2"], "b": [b"b0", b"b1"]}
        for group, listed in bodies.items():
            await queues.send(
                "q", [Outgoing(body=one, group=group, deduplication_id=one[-2:].decode()) for one in listed]
            )
        platter.broken = True
        first = await take(queues)
        assert [got.body for got in first] == [b"a0", b"b0", b"b1"]
        await queues.settle("q", [got.receipt for got in first])
        assert await take(queues) == []
        platter.broken = False
        await until_leases_end()
        assert [(got.body, got.attempts) for got in await take(queues)] == [(BODY + b"a1", 1), (b"a2", 1)]

    Desk().live(play)


def test_a_message_too_large_for_a_door_waits_for_another() -> None:
    parts = JOINED_BYTES_MAX // PART_BYTES_MAX + 1

    async def play(life: Life) -> None:
        queues = await opened(life)
        await queues.create("replies", QueueSettings())
        upload = await queues.begin("q")
        for number in range(parts):
            await queues.add("q", upload, number, bytes([number]) * PART_BYTES_MAX)
        said = Outgoing(body=b"", reply_to="replies", report_fate=True)
        assert (await queues.finish("q", upload, parts, said)).code is None
        await queues.send("q", [Outgoing(body=b"small")])
        (small,) = await take(queues, in_parts=False)
        assert small.body == b"small"
        await queues.settle("q", [small.receipt])
        for _ in range(ATTEMPTS_MAX + 1):
            await until_leases_end()
            assert await take(queues, in_parts=False) == []
        await until_leases_end()
        (large,) = await take(queues)
        assert (large.parts, large.attempts) == (parts, 1)
        assert await queues.read_part("q", large.receipt, 3) == bytes([3]) * PART_BYTES_MAX
        assert await queues.settle("q", [large.receipt]) == [None]
        (told,) = await take(queues, "replies")
        assert told.fate == "settled"

    Desk().live(play)


def test_the_audit_record_says_unseen(platter: Platter) -> None:
    async def play(life: Life) -> None:
        queues = await opened(life, msgspec.structs.replace(SETTINGS, audit="deliveries"))
        await queues.send("q", [Outgoing(body=BODY)])
        platter.broken = True
        assert await take(queues) == []
        platter.broken = False
        await until_leases_end()
        await take(queues)
        await life.sync()
        batches = stored_batches(life.partition("q.deliveries"))
        told = [msgspec.json.decode(record.value or b"") for _, batch in batches for record in read_records(batch, 0)]
        assert [(one["kind"], one["attempt"], one["reason"]) for one in told] == [
            ("delivered", 1, ""),
            ("returned", 1, "unseen"),
            ("delivered", 1, ""),
        ]
        assert told[1]["until_ms"] == told[0]["until_ms"]

    Desk().live(play)


def test_a_full_disk_fails_the_receive_of_a_withheld_message(platter: Platter, monkeypatch: pytest.MonkeyPatch) -> None:
    """A failed receive may have leased messages, as the client knows."""

    async def play(life: Life) -> None:
        queues = await opened(life)
        await queues.send("q", [Outgoing(body=BODY), Outgoing(body=b"small")])
        platter.broken = True
        monkeypatch.setattr(withheld_messages, "EVENT_ROOM_BYTES", 1 << 60)
        with pytest.raises(LonghallError) as refusal:
            await take(queues)
        assert refusal.value.code is Code.STORAGE_FULL

    Desk().live(play)

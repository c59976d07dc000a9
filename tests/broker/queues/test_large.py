"""Messages larger than the limit: whole or not at all, through every step and every death; freed when done with."""

from __future__ import annotations

import asyncio
import hashlib

import msgspec
import pytest

from longhall.broker.checkpoint import checkpoint
from longhall.broker.queues.large_messages.chunk_collector import GRACE_MS
from longhall.broker.queues.large_messages.reassembly import JOINED_BYTES_MAX
from longhall.broker.queues.large_messages.upload import PART_BYTES_MAX
from longhall.broker.queues.service import QueueService as Queues
from longhall.errors import Code, LonghallError
from longhall.queues.chunks import IDLE_MS
from longhall.queues.envelope import WHOLE, WHOLE_BYTES
from longhall.queues.messages import Delivery, Outgoing
from longhall.queues.settings import DeadLetters, QueueSettings
from longhall.records.batch import Record, build_batch, read_records
from tests.broker.desk import Desk, Life, stored_batches

SETTINGS = QueueSettings(message_bytes_max=4096, whole_bytes_max=4 * 1024 * 1024)
BODY = bytes(range(256)) * 9_000  # Three parts.


async def one(queues: Queues, name: str = "q", lease_ms: int = 30_000) -> Delivery:
    found = await queues.receive(name, 10, 0, lease_ms, "")
    assert len(found) == 1
    return found[0]


async def freed(life: Life, queues: Queues) -> None:
    """Let the time of grace pass, twice looked at."""
    await queues.sweeper.sweep()
    await asyncio.sleep(GRACE_MS / 1000 + 1)
    await queues.sweeper.sweep()
    await life.sync()
    await checkpoint(life.hall)


def kept(life: Life) -> int:
    """Logs of parts that are still there."""
    assert len(life.hall.catalogue.parts) == sum(len(one) for one in life.hall.chunked_messages) + sum(
        one.count for one in life.hall.uploads
    )
    directories = life.world.disk.list("partitions")
    return sum(f"{number:016x}" in directories for number in life.hall.catalogue.parts)


async def refused(asked: object) -> Code:
    with pytest.raises(LonghallError) as refusal:
        await asked  # type: ignore[misc]
    return refusal.value.code


def test_a_large_message_round_trips_and_its_space_is_freed() -> None:
    async def play(life: Life) -> None:
        queues = Queues(life.hall)
        await queues.create("q", SETTINGS)
        sent = (await queues.send("q", [Outgoing(body=BODY, attributes={"a": ("String", b"x")})]))[0]
        assert sent.code is None
        got = await one(queues)
        assert (got.body, got.message_id, got.attributes) == (BODY, sent.message_id, {"a": ("String", b"x")})
        assert (got.parts, got.whole_bytes) == (0, 0)
        await freed(life, queues)
        assert kept(life) == 1, "it is only leased"
        again = await one(queues)
        assert again.body == BODY
        assert again.attempts == 2
        assert await queues.settle("q", [again.receipt]) == [None]
        await freed(life, queues)
        assert kept(life) == 0
        assert life.world.disk.list("partitions") == [f"{life.partition('q').log.partition:016x}"]

    Desk().live(play)


def test_large_messages_beyond_the_settings_are_refused() -> None:
    async def play(life: Life) -> None:
        queues = Queues(life.hall)
        await queues.create("q", msgspec.structs.replace(SETTINGS, whole_bytes_max=len(BODY)))
        await queues.create("small", msgspec.structs.replace(SETTINGS, whole_bytes_max=0))
        sent = await queues.send("q", [Outgoing(body=BODY + b"x"), Outgoing(body=BODY)])
        assert [answer.code for answer in sent] == [Code.MESSAGE_TOO_LARGE, None]
        assert (await queues.send("small", [Outgoing(body=b"x" * 4097)]))[0].code is Code.MESSAGE_TOO_LARGE
        assert await refused(queues.begin("small")) is Code.MESSAGE_TOO_LARGE
        upload = await queues.begin("q")
        assert await refused(queues.add("q", upload, 0, b"x" * (PART_BYTES_MAX + 1))) is Code.MESSAGE_TOO_LARGE
        assert await refused(queues.add("q", upload, -1, b"x")) is Code.INVALID_REQUEST
        assert await refused(queues.add("q", upload, 1 << 40, b"x")) is Code.INVALID_REQUEST
        assert await refused(queues.add("small", upload, 0, b"x")) is Code.INVALID_REQUEST
        await queues.add("q", upload, 1, b"x")
        assert await refused(queues.finish("q", upload, 2, Outgoing(body=b""))) is Code.INVALID_REQUEST
        for made_up in ("", "1.0", "zz.1", "99.1", "-1.x", "²." + "0" * 32):
            assert await refused(queues.add("q", made_up, 0, b"x")) is Code.INVALID_REQUEST
            assert await refused(queues.abort("q", made_up)) is Code.INVALID_REQUEST
        for _ in range(4):
            await queues.add("q", upload, 0, b"x" * PART_BYTES_MAX)
        assert await refused(_repeat(queues, upload)) is Code.MESSAGE_TOO_LARGE
        await queues.abort("q", upload)
        assert (await one(queues)).body == BODY

    Desk().live(play)


async def _repeat(queues: Queues, upload: str) -> None:
    for _ in range(10):
        await queues.add("q", upload, 0, b"x" * PART_BYTES_MAX)


def test_parts_arrive_in_any_order_and_are_read_one_by_one() -> None:
    parts = [bytes([number]) * PART_BYTES_MAX for number in range(JOINED_BYTES_MAX // PART_BYTES_MAX + 1)]

    async def play(life: Life) -> None:
        queues = Queues(life.hall)
        await queues.create("q", msgspec.structs.replace(SETTINGS, whole_bytes_max=64 * 1024 * 1024))
        upload = await queues.begin("q")
        await queues.add("q", upload, 3, b"not this")
        for number in reversed(range(len(parts))):
            await queues.add("q", upload, number, parts[number])
            assert await queues.receive("q", 10, 0, 1000, "") == []
        accepted = await queues.finish("q", upload, len(parts), Outgoing(body=b"", key=b"k"))
        repeated = await queues.finish("q", upload, len(parts), Outgoing(body=b""))
        assert (accepted.repeated, repeated.repeated) == (False, True)
        assert accepted.message_id == repeated.message_id
        got = await one(queues)
        assert (got.body, got.key, got.parts) == (b"", b"k", len(parts))
        assert got.whole_bytes == len(parts) * PART_BYTES_MAX
        for number, part in enumerate(parts):
            assert await queues.read_part("q", got.receipt, number) == part
        assert await refused(queues.read_part("q", got.receipt, len(parts))) is Code.INVALID_REQUEST
        assert await refused(queues.read_part("q", got.receipt + "x", 0)) is Code.INVALID_RECEIPT
        await queues.settle("q", [got.receipt])
        assert await refused(queues.read_part("q", got.receipt, 0)) is Code.RECEIPT_SUPERSEDED

    Desk().live(play)


def test_large_messages_beyond_one_reply_are_in_the_next() -> None:
    body = b"x" * (JOINED_BYTES_MAX // 2 - 1000)

    async def play(life: Life) -> None:
        queues = Queues(life.hall)
        await queues.create("q", msgspec.structs.replace(SETTINGS, whole_bytes_max=JOINED_BYTES_MAX))
        await queues.send("q", [Outgoing(body=b"first"), *[Outgoing(body=body) for _ in range(3)]])
        found = await queues.receive("q", 10, 0, 60_000, "")
        assert [len(one.body) for one in found] == [5, len(body), len(body)]
        found = await queues.receive("q", 10, 0, 60_000, "")
        assert [(len(one.body), one.attempts) for one in found] == [(len(body), 1)]

    Desk().live(play)


def test_an_abandoned_upload_is_removed() -> None:
    desk = Desk()

    async def begin(life: Life) -> str:
        queues = Queues(life.hall)
        await queues.create("q", SETTINGS)
        upload = await queues.begin("q")
        await queues.add("q", upload, 0, b"x" * 100_000)
        return upload

    upload = desk.live(begin)

    async def go_on(life: Life) -> None:
        queues = Queues(life.hall)
        await queues.add("q", upload, 1, b"y")  # Who did not die goes on after a restart.
        assert await queues.receive("q", 1, 0, 1000, "") == []
        await asyncio.sleep(IDLE_MS / 1000 + 1)
        await freed(life, queues)
        assert kept(life) == 0
        assert await refused(queues.add("q", upload, 2, b"z")) is Code.INVALID_REQUEST
        assert await refused(queues.finish("q", upload, 2, Outgoing(body=b""))) is Code.INVALID_REQUEST
        assert queues.depth("q").available == 0

    desk.live(go_on)


def test_a_deleted_or_purged_queue_keeps_no_parts() -> None:
    async def play(life: Life) -> None:
        queues = Queues(life.hall)
        for name in ("purged", "deleted"):
            await queues.create(name, SETTINGS)
            await queues.send(name, [Outgoing(body=BODY), Outgoing(body=BODY, delay_ms=10_000_000)])
            await queues.begin(name)
        await queues.purge("purged")
        await queues.delete("deleted")
        await asyncio.sleep(IDLE_MS / 1000 + 1)
        await freed(life, queues)
        assert kept(life) == 0

    Desk().live(play)


def test_delayed_dead_and_redriven_large_messages_stay_complete() -> None:
    desk = Desk()
    settings = msgspec.structs.replace(SETTINGS, dead_letters=DeadLetters(queue="dead", attempts_max=1))

    async def play(life: Life) -> None:
        queues = Queues(life.hall)
        queues.stager.start()
        await queues.create("dead", SETTINGS)
        await queues.create("q", settings)
        await queues.send("q", [Outgoing(body=BODY, delay_ms=120_000)])
        assert await queues.receive("q", 1, 0, 1000, "") == []
        await freed(life, queues)
        await asyncio.sleep(65)
        assert (await one(queues, lease_ms=1)).body == BODY
        await asyncio.sleep(1)
        assert await queues.receive("q", 1, 0, 1000, "") == []
        await queues.delete("q")
        await freed(life, queues)
        await queues.stager.stop()

    async def back(life: Life) -> None:
        queues = Queues(life.hall)
        got = await one(queues, "dead", lease_ms=0)
        assert (got.body, got.dead_letter_source) == (BODY, "q")
        await queues.create("q", settings)
        await queues.start_move("dead", "", 0)
        await asyncio.sleep(5)
        await freed(life, queues)
        got = await one(queues)
        assert got.body == BODY
        await queues.settle("q", [got.receipt])
        await freed(life, queues)
        assert kept(life) == 0
        await queues.mover.stop()

    desk.live(play)
    desk.live(back)


def test_a_repeated_large_message_is_deduplicated_by_content() -> None:
    settings = msgspec.structs.replace(SETTINGS, deduplication="content")

    async def play(life: Life) -> None:
        queues = Queues(life.hall)
        await queues.create("q", settings)
        first, second = await queues.send("q", [Outgoing(body=BODY), Outgoing(body=BODY)])
        assert (first.repeated, second.repeated) == (False, True)
        upload = await queues.begin("q")
        for number in range(3):
            await queues.add("q", upload, number, BODY[number * 800_000 : (number + 1) * 800_000])
        third = await queues.finish("q", upload, 3, Outgoing(body=b""))
        assert third.repeated
        assert third.message_id == first.message_id
        got = await one(queues)
        assert got.deduplication_id == hashlib.sha256(BODY).hexdigest()
        assert kept(life) == 1

    Desk().live(play)


def test_a_full_queue_counts_the_size_of_large_messages() -> None:
    settings = msgspec.structs.replace(SETTINGS, bytes_max=len(BODY) + 1000)

    async def play(life: Life) -> None:
        queues = Queues(life.hall)
        await queues.create("q", settings)
        codes = [answer.code for answer in await queues.send("q", [Outgoing(body=BODY), Outgoing(body=b"x" * 1001)])]
        assert codes == [None, Code.QUEUE_FULL]
        got = await one(queues)
        await queues.settle("q", [got.receipt])
        assert [answer.code for answer in await queues.send("q", [Outgoing(body=BODY)])] == [None]
        await freed(life, queues)
        assert kept(life) == 1

    Desk().live(play)


def test_at_most_once_delivers_large_messages() -> None:
    settings = msgspec.structs.replace(SETTINGS, delivery="at-most-once")

    async def play(life: Life) -> None:
        queues = Queues(life.hall)
        await queues.create("q", settings)
        await queues.send("q", [Outgoing(body=BODY)])
        assert (await one(queues)).body == BODY
        await freed(life, queues)
        assert kept(life) == 0

    Desk().live(play)


def test_topic_readers_see_a_note_and_copies_of_it_are_no_message() -> None:
    async def play(life: Life) -> None:
        queues = Queues(life.hall)
        await queues.create("q", SETTINGS)
        await queues.send("q", [Outgoing(body=BODY)])
        [(_, batch)] = stored_batches(life.partition("q"))
        [record] = read_records(batch, 0)
        assert record.value == b'{"whole_bytes":%d,"parts":3}' % len(BODY)
        assert (WHOLE_BYTES, b"%d" % len(BODY)) in record.headers
        forged = [
            Record(-1, record.timestamp_ms, None, b"copied", record.headers),
            Record(-1, record.timestamp_ms, None, b"made up", ((WHOLE, b"1.0"), (WHOLE_BYTES, b"12"))),
            Record(-1, record.timestamp_ms, None, b"plain", ()),
        ]
        await life.send(life.partition("q"), build_batch(forged))
        first = await queues.receive("q", 10, 0, 60_000, "")
        assert [one.body for one in first] == [BODY, b"plain"]
        assert await queues.settle("q", [one.receipt for one in first]) == [None, None]
        assert queues.depth("q").in_flight == 0
        await freed(life, queues)
        await life.send(life.partition("q"), build_batch(forged))
        assert [one.body for one in await queues.receive("q", 10, 0, 60_000, "")] == [b"plain"]
        assert queues.depth("q").in_flight == 1

    Desk().live(play)


@pytest.mark.parametrize("delay_ms", [0, 2000])
@pytest.mark.parametrize("changes", [*range(1, 13), 16, 20, 28, 36, 44, 52, 60, 68, 80, 100])
def test_a_crash_leaves_a_large_message_complete_or_absent(changes: int, delay_ms: int) -> None:
    desk = Desk(changes)
    done: list[str] = []

    async def declare(life: Life) -> None:
        await Queues(life.hall).create("q", SETTINGS)
        await checkpoint(life.hall)

    async def send(life: Life) -> None:
        queues = Queues(life.hall)
        upload = await queues.begin("q")
        for number in range(3):
            await queues.add("q", upload, number, BODY[number * 800_000 : (number + 1) * 800_000])
        await queues.finish("q", upload, 3, Outgoing(body=b"", delay_ms=delay_ms))
        done.append("sent")
        await asyncio.sleep(delay_ms / 1000 + 1)
        got = await one(queues)
        done.append("given")
        await checkpoint(life.hall)
        await queues.settle("q", [got.receipt])
        done.append("settled")
        await freed(life, queues)

    async def look(life: Life) -> None:
        queues = Queues(life.hall)
        await asyncio.sleep(IDLE_MS / 1000)  # Before the background tasks start, which would tick all the time.
        queues.start()
        await asyncio.sleep(60)
        found = await queues.receive("q", 10, 0, 1000, "")
        assert [one.body for one in found] in ([], [BODY])
        if "settled" in done:
            assert found == []
        elif "sent" in done:
            assert len(found) == 1
        if found:
            await queues.settle("q", [found[0].receipt])
        await freed(life, queues)
        assert kept(life) == 0
        await queues.stop()

    desk.live(declare)
    desk.host.faults.cut_after_changes = changes
    desk.live(send, end="cut")
    desk.host.faults.cut_after_changes = -1
    desk.live(look)

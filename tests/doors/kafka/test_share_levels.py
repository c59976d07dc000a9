"""Share groups on queues with levels: members get messages by priority, at their offsets in the partition."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from longhall.broker.queues.running_queue import RunningQueue
from longhall.broker.send import append_here
from longhall.doors.kafka.wire.messages.share_records import AcknowledgementBatch
from longhall.node.assembly import Node
from longhall.queues.envelope import PRIORITY, STAMP, moved_record
from longhall.queues.level_copies import level_copy, original_of, original_record
from longhall.queues.settings import DeadLetters, QueueSettings
from longhall.records.batch import Record, build_batch, parse_header, read_records
from tests.doors.kafka.asking import produce
from tests.doors.kafka.share_member import ACCEPT, INVALID_RECORD_STATE, REJECT, RELEASE, RENEW, Member, member_of
from tests.doors.two_nodes import two_nodes

INVALID_REQUEST = 42


def _message(body: str, header: str = PRIORITY, number: int = 0) -> Record:
    headers = ((header, b"%d" % number),) if number else ()
    return Record(-1, int(time.time() * 1000), b"key", body.encode(), headers)


@asynccontextmanager
async def _node(directory: Path, *messages: Record, **settings: Any) -> AsyncIterator[Node]:
    async with two_nodes(directory) as two:
        node = two.leader
        if "dead_letters" in settings:
            await node.queues.create("letters", QueueSettings())
        await node.queues.create("q", QueueSettings(**settings))
        if messages:
            assert await produce(node, ("q", 0), records=build_batch(list(messages))) == [0]
        yield node


async def _take(member: Member, *batches: AcknowledgementBatch, **fields: Any) -> list[tuple[int, str, int]]:
    """Offset, body and delivery count of what the member may show."""
    answer = await member.fetch(*batches, share_acquire_mode=1, max_wait_ms=200, **fields)
    assert answer.error_code == 0
    found = []
    for topic in answer.responses:
        for part in topic.partitions:
            assert part.error_code == 0, part.error_message
            counts = {
                offset: one.delivery_count
                for one in part.acquired_records
                for offset in range(one.first_offset, one.last_offset + 1)
            }
            at = 0
            while at < len(part.records):
                for record in read_records(part.records, at):
                    if record.offset in counts:
                        found.append((record.offset, (record.value or b"").decode(), counts.pop(record.offset)))
                at += parse_header(part.records, at).size_bytes
            assert not counts, "acquired offsets without a record"
    return found


def _queue_of(node: Node) -> RunningQueue:
    return next(queue for queue in node.hall.queues.values() if queue.entry.name == "q")


def _of(offset: int, kind: int) -> AcknowledgementBatch:
    return AcknowledgementBatch(first_offset=offset, last_offset=offset, acknowledge_types=[kind])


def _bodies(found: list[tuple[int, str, int]]) -> list[str]:
    return [body for _, body, _ in found]


def test_a_copy_names_its_original_and_gives_it_back() -> None:
    original = Record(7, 1_700_000_000_000, b"key", b"body", (("a", b"1"), (PRIORITY, b"2")))
    copy = level_copy(original, "id", 1_800_000_000_000, 3)
    assert original_of(copy) == (3, 7)
    again = original_record(copy, 7)
    assert (again.offset, again.timestamp_ms, again.key, again.value) == (7, original.timestamp_ms, b"key", b"body")
    assert set(again.headers) == {*original.headers, ("longhall.id", b"id")}
    assert original_of(moved_record(copy, "id", 0)) is None, "a message that is moved has another original"
    assert original_of(original) is None


async def test_the_highest_level_comes_first_at_the_offsets_of_the_partition(tmp_path: Path) -> None:
    messages = [_message("a"), _message("b", number=1), _message("c", number=2), _message("d"), _message("e", number=2)]
    async with _node(tmp_path, *messages, priorities=3) as node, member_of(node, "q") as member:
        assert await _take(member, max_records=2) == [(2, "c", 1), (4, "e", 1)]
        assert await _take(member, _of(2, ACCEPT), _of(4, ACCEPT), max_records=1) == [(1, "b", 1)]
        assert await _take(member) == [(0, "a", 1), (3, "d", 1)]
        assert await member.acknowledge(_of(0, ACCEPT), _of(1, ACCEPT), _of(3, ACCEPT)) == 0
        assert await _take(member) == []
        assert _queue_of(node).queue.state.messages == 0


async def test_a_later_message_of_a_higher_level_overtakes(tmp_path: Path) -> None:
    ordinary = [_message(f"m{number}") for number in range(3)]
    async with _node(tmp_path, *ordinary, priorities=2) as node, member_of(node, "q") as member:
        assert _bodies(await _take(member, max_records=1)) == ["m0"]
        assert await produce(node, ("q", 0), records=build_batch([_message("urgent", number=1)])) == [0]
        assert await _take(member, max_records=1) == [(3, "urgent", 1)]
        assert _bodies(await _take(member)) == ["m1", "m2"]


async def test_what_is_said_of_an_offset_holds_for_the_copy(tmp_path: Path) -> None:
    letters = DeadLetters(queue="letters", attempts_max=5)
    messages = [_message("one", number=1), _message("two", number=1), _message("three", number=1)]
    async with _node(tmp_path, *messages, priorities=2, dead_letters=letters, lease_ms=2_000) as node:
        async with member_of(node, "q") as member:
            assert _bodies(await _take(member)) == ["one", "two", "three"]
            assert await member.acknowledge(_of(0, RELEASE), _of(1, REJECT)) == 0
            assert await member.acknowledge(_of(2, RENEW), renew=True) == 0
            assert await _take(member) == [(0, "one", 2)]
            assert await member.acknowledge(_of(1, ACCEPT)) == INVALID_RECORD_STATE
            assert await member.acknowledge(_of(0, ACCEPT), _of(2, ACCEPT)) == 0
        async with member_of(node, "letters") as reader:
            assert _bodies(await _take(reader)) == ["two"]


async def test_a_member_that_goes_returns_its_copies(tmp_path: Path) -> None:
    async with _node(tmp_path, _message("one", number=1), priorities=2) as node:
        async with member_of(node, "q") as member:
            assert await _take(member) == [(0, "one", 1)]
        async with member_of(node, "q") as member:
            async with asyncio.timeout(20):
                while not (found := await _take(member)):
                    pass
            assert found == [(0, "one", 2)]


async def test_a_late_message_goes_to_the_head_for_members_too(tmp_path: Path) -> None:
    stamped = [_message(f"s{number}", STAMP, number) for number in (10, 20, 30)]
    async with _node(tmp_path, *stamped, late_stamped="head") as node, member_of(node, "q") as member:
        assert _bodies(await _take(member, max_records=2)) == ["s10", "s20"]
        assert await produce(node, ("q", 0), records=build_batch([_message("s15", STAMP, 15)])) == [0]
        assert await _take(member, max_records=1) == [(3, "s15", 1)]
        assert _bodies(await _take(member)) == ["s30"]


async def test_at_most_once_settles_with_the_acquisition(tmp_path: Path) -> None:
    once = _message("once", number=1)
    async with (
        _node(tmp_path, once, priorities=2, delivery="at-most-once") as node,
        member_of(node, "q") as member,
    ):
        assert await _take(member) == [(0, "once", 1)]
        assert await member.acknowledge(_of(0, ACCEPT)) == 0
        assert await _take(member) == []


async def test_copies_of_an_earlier_version_are_left_to_other_doors(tmp_path: Path) -> None:
    async with _node(tmp_path, _message("new", number=1), priorities=2) as node, member_of(node, "q") as member:
        assert await _take(member) == [(0, "new", 1)]
        hall, level = node.hall, _queue_of(node).levels[1]
        old = build_batch([moved_record(_message("old", number=1), "id", hall.time.now_ms())])
        assert append_here(hall, level, parse_header(old, 0), old, 0, hall.time.now_ms(), False) is None
        answer = await member.fetch(_of(0, ACCEPT), max_wait_ms=200)
        (part,) = answer.responses[0].partitions
        assert (part.error_code, part.acknowledge_error_code) == (INVALID_REQUEST, 0)
        assert "from an earlier version" in part.error_message

"""Record errors: the answer to a refused batch names the messages that caused it (KIP-467)."""

from __future__ import annotations

from pathlib import Path

from longhall.broker.send import RECORD_ERRORS_MAX
from longhall.doors.kafka.topic_operations import create_topic
from longhall.records.batch import Record, build_batch
from tests.doors.kafka.asking import ask, produce_request
from tests.doors.two_nodes import LEADER, TwoNodes, two_nodes

INVALID_RECORD, INVALID_TIMESTAMP = 87, 32


async def _produce(
    two: TwoNodes, keys: list[bytes | None], stamps: list[int], version: int = 9
) -> tuple[int, list[int], bool]:
    records = [Record(-1, stamp, key, b"v", ()) for key, stamp in zip(keys, stamps, strict=True)]
    answer = await ask(two.leader, produce_request([("t", 0)], build_batch(records)), version)
    part = answer.responses[0].partition_responses[0]
    return part.error_code, [error.batch_index for error in part.record_errors], bool(part.error_message)


async def test_messages_without_a_key_are_named(tmp_path: Path) -> None:
    async with two_nodes(tmp_path) as two:
        await create_topic(two.leader.hall, LEADER, "t", {"cleanup.policy": "compact"})
        now_ms = two.leader.hall.time.now_ms()
        keys = [b"a", None, b"b", None]
        assert await _produce(two, keys, [now_ms] * 4) == (INVALID_RECORD, [1, 3], True)
        assert await _produce(two, keys, [now_ms] * 4, version=7) == (INVALID_RECORD, [], False)
        many = RECORD_ERRORS_MAX + 5
        code, named, _ = await _produce(two, [None] * many, [now_ms] * many)
        assert (code, named) == (INVALID_RECORD, list(range(RECORD_ERRORS_MAX)))
        assert await _produce(two, [b"a"], [now_ms]) == (0, [], False)


async def test_messages_with_a_wrong_time_are_named(tmp_path: Path) -> None:
    async with two_nodes(tmp_path) as two:
        await create_topic(two.leader.hall, LEADER, "t", {"message.timestamp.after.max.ms": "1000"})
        now_ms = two.leader.hall.time.now_ms()
        assert await _produce(two, [None] * 3, [now_ms, now_ms + 60_000, now_ms]) == (INVALID_TIMESTAMP, [1], True)
        assert two.leader.hall.routes["t"][0].log.next_offset == 0

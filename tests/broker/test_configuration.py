"""The configuration of topics: each setting has its effect, and what has none is checked and shown."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, Protocol

import pytest

from longhall.broker.configuration import SETTINGS, check, defaults, resolve
from longhall.broker.log_cleaner import LogCleaner
from longhall.broker.options import HallOptions
from longhall.broker.send import Sent
from longhall.broker.topic_administration import configure_topic, create_topic
from longhall.errors import Code, LonghallError
from longhall.records.batch import read_records
from longhall.records.compression import GZIP, LZ4, ZSTD
from tests.broker.desk import Desk, Life, batch_of, stored_batches

TEXT = b" ".join(b"word %d of many" % (number * 7919 % 1000) for number in range(2000))


class Play(Protocol):
    def __call__(self, life: Life) -> Coroutine[Any, Any, Any]: ...


def send_one(
    configuration: dict[str, str], *, key: bytes | None = b"k", value: bytes = b"v", later_ms: int = 0
) -> Sent:
    """What happens to one message that is sent to a topic with this configuration."""

    async def play(life: Life) -> Sent:
        await create_topic(life.hall, "t", 1, configuration)
        batch = batch_of(value, key=key, timestamp_ms=life.hall.time.now_ms() + later_ms)
        return await life.send(life.partition("t"), batch)

    sent = Desk().live(play)
    assert isinstance(sent, Sent)
    return sent


@pytest.mark.parametrize(
    ("codec", "name", "level", "low", "high"),
    [
        (GZIP, "gzip", "compression.gzip.level", "1", "9"),
        (LZ4, "lz4", "compression.lz4.level", "1", "17"),
        (ZSTD, "zstd", "compression.zstd.level", "-7", "3"),
    ],
)
def test_batches_are_compressed_with_the_topics_codec_and_level(
    codec: int, name: str, level: str, low: str, high: str
) -> None:

    async def play(life: Life) -> list[int]:
        await create_topic(life.hall, "t", 1, {"compression.type": name, level: low})
        partition = life.partition("t")
        await life.send(partition, batch_of(TEXT))
        await configure_topic(life.hall, "t", {"compression.type": name, level: high})
        await life.send(partition, batch_of(TEXT))
        stored = stored_batches(partition)
        assert [header.compression for header, _ in stored] == [codec, codec]
        assert [read_records(batch, 0)[0].value for _, batch in stored] == [TEXT, TEXT]
        return [header.size_bytes for header, _ in stored]

    sizes = Desk().live(play)
    assert sizes[1] < sizes[0] < len(TEXT)


def test_a_batch_may_be_too_large() -> None:
    assert send_one({"max.message.bytes": "200"}, value=b"x" * 300).code is Code.MESSAGE_TOO_LARGE
    assert send_one({"max.message.bytes": "2000"}, value=b"x" * 300).code is None


def test_timestamps_are_checked_or_replaced() -> None:
    assert send_one({"message.timestamp.after.max.ms": "1000"}, later_ms=5_000).code is Code.INVALID_TIMESTAMP
    assert send_one({"message.timestamp.before.max.ms": "1000"}, later_ms=-5_000).code is Code.INVALID_TIMESTAMP
    assert send_one({"message.timestamp.before.max.ms": "9000"}, later_ms=-5_000).append_time_ms == -1
    assert send_one({"message.timestamp.type": "LogAppendTime"}, later_ms=-5_000).append_time_ms > 0


def test_a_topic_asks_for_as_many_replicas_in_sync_as_it_needs() -> None:
    """A lone node has one."""
    assert send_one({"min.insync.replicas": "2"}).code is Code.NOT_ENOUGH_REPLICAS
    assert send_one({"min.insync.replicas": "1"}).code is None
    assert send_one({"min.insync.replicas": "2", "longhall.acknowledge": "one"}).code is None


@pytest.mark.parametrize(
    ("configuration", "kept"),
    [
        ({"segment.bytes": "3000", "retention.ms": "-1"}, 20),
        ({"segment.bytes": "3000", "retention.ms": "60000"}, 0),
        ({"segment.bytes": "3000", "retention.bytes": "5000", "retention.ms": "-1"}, 13),
    ],
)
def test_old_messages_are_removed(configuration: dict[str, str], kept: int) -> None:
    async def play(life: Life) -> int:
        await create_topic(life.hall, "t", 1, configuration)
        for _ in range(20):
            await life.send(life.partition("t"), batch_of(b"x" * 350, timestamp_ms=life.hall.time.now_ms() - 99_000))
        await LogCleaner(life.hall).run()
        log = life.partition("t").log
        return log.next_offset - log.start_offset

    assert Desk().live(play) == kept


@pytest.mark.parametrize(
    ("name", "wrong", "right"),
    [
        ("compression.gzip.level", "0", "-1"),
        ("compression.lz4.level", "18", "17"),
        ("compression.zstd.level", "23", "-131072"),
        ("file.delete.delay.ms", "-1", "0"),
        ("flush.messages", "0", "1"),
        ("flush.ms", "soon", "0"),
        ("follower.replication.throttled.replicas", "all", "*"),
        ("leader.replication.throttled.replicas", "1", "0:1,1:2"),
        ("index.interval.bytes", "-1", "4096"),
        ("local.retention.bytes", "-3", "-2"),
        ("local.retention.ms", "-3", "-1"),
        ("preallocate", "yes", "true"),
        ("remote.log.copy.disable", "", "true"),
        ("remote.log.delete.on.disable", "1", "true"),
        ("remote.storage.enable", "true", "false"),
        ("segment.index.bytes", "3", "4"),
        ("segment.jitter.ms", "-1", "0"),
        ("unclean.leader.election.enable", "maybe", "true"),
        ("cleanup.policy", "sometimes", ""),
        ("min.insync.replicas", "0", "3"),
        ("min.insync.replicas", "1_000", " 3 "),
        ("min.cleanable.dirty.ratio", "half", "5e-1"),
        ("min.cleanable.dirty.ratio", "nan", ".5"),
    ],
)
def test_values_are_checked(name: str, wrong: str, right: str) -> None:
    with pytest.raises(LonghallError) as caught:
        check({name: wrong})
    assert caught.value.code is Code.INVALID_CONFIGURATION
    assert name in str(caught.value)
    check({name: right})


def test_lags_of_compaction_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(LonghallError):
        check({"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "9"})
    check({"min.compaction.lag.ms": "9", "max.compaction.lag.ms": "10"})


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [("retention.ms", "soon", "must be a whole number"), ("min.cleanable.dirty.ratio", "1/2", "must be a number")],
)
def test_a_value_that_is_no_number_is_called_that(name: str, value: str, reason: str) -> None:
    with pytest.raises(LonghallError, match=f"Invalid value '{value}' for configuration {name}: {reason}"):
        check({name: value})


def test_defaults_are_values_that_could_be_given() -> None:
    usual = defaults(HallOptions())
    check({name: value for name, value in usual.items() if name != "longhall.wings"})
    assert usual.keys() == SETTINGS.keys()
    resolve(HallOptions(), usual)

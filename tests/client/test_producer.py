"""Producing through failures: every record arrives once and in order, or its sender gets an error."""

from __future__ import annotations

import asyncio

import pytest

from longhall.client.hall import Hall
from longhall.client.producer import Options, Producer
from longhall.client.reader import Reader
from longhall.client.records import EARLIEST
from longhall.client.refusals import Refused, Unreachable
from longhall.errors import Code, LonghallError
from longhall.records.compression import CODEC_MAX, ZSTD
from longhall.records.partitioner import partition_for
from longhall.records.profiles import batching_of
from simulation.world import SimulatedWorld
from tests.client.conftest import Play
from tests.client.scripted import DROP, FETCH, INIT_PRODUCER_ID, LOSE, PRODUCE, SILENT, ScriptedBroker


async def read_all(hall: Hall) -> dict[int, list[bytes | None]]:
    reader = await Reader.open(hall, "t", EARLIEST)
    found: dict[int, list[bytes | None]] = {0: [], 1: []}
    while not reader.at_end:
        for consumed in await reader.poll():
            found[consumed.partition].append(consumed.record.value)
    reader.close()
    return found


def test_records_arrive_with_key_headers_and_timestamp(play: Play) -> None:
    async def scene(broker: ScriptedBroker, hall: Hall, world: SimulatedWorld) -> None:
        producer = Producer(hall, world.clock)
        now_ms = world.clock.wall_ms()
        headers = (("a", b"1"), ("a", None))
        sent = await producer.send("t", b"value", key=b"key", headers=headers, partition=1)
        await producer.send("t", None, key=b"key", partition=1, timestamp_ms=5)
        await producer.close()
        assert sent.result() == ("t", 1, 0)
        reader = Reader(hall, {("t", 1): 0})
        first, second = [consumed.record for consumed in await reader.poll()]
        assert (first.offset, first.key, first.value, first.headers) == (0, b"key", b"value", headers)
        assert now_ms <= first.timestamp_ms <= world.clock.wall_ms()
        assert (second.offset, second.value, second.timestamp_ms) == (1, None, 5)

    play(scene)


@pytest.mark.parametrize("compression", range(CODEC_MAX + 1))
def test_many_records_are_sent_in_few_batches(play: Play, compression: int) -> None:
    async def scene(broker: ScriptedBroker, hall: Hall, world: SimulatedWorld) -> None:
        producer = Producer(hall, world.clock, Options(compression=compression, batch_bytes_max=10_000))
        sent = [await producer.send("t", b"%d" % number * 20, key=b"%d" % number) for number in range(1000)]
        await producer.flush()
        for number, each in enumerate(sent):
            assert each.result().partition == partition_for(b"%d" % number, 2)
        assert sum(len(log) for log in broker.logs.values()) < 40
        assert sum(len(values) for values in (await read_all(hall)).values()) == 1000

    play(scene)


def test_the_profile_decides_how_many_batches_a_producer_sends(play: Play) -> None:
    async def scene(broker: ScriptedBroker, hall: Hall, world: SimulatedWorld) -> None:
        counts: dict[str, int] = {}
        tuned = {"longhall.profile": "throughput", "longhall.producer.linger.ms": "0"}
        small = {"longhall.profile": "throughput", "longhall.producer.batch.bytes": "1"}
        for name, config in {
            "latency": {"longhall.profile": "latency"},
            "throughput": {"longhall.profile": "throughput"},
            "tuned": tuned,
            "small": small,
        }.items():
            batching = batching_of(config)
            options = Options(linger_ms=batching.linger_ms, batch_bytes_max=batching.batch_bytes_max)
            producer = Producer(hall, world.clock, options)
            before = len(broker.logs[0])
            for number in range(20):
                await producer.send("t", b"%d" % number, partition=0)
                await asyncio.sleep(0.01)
            await producer.close()
            counts[name] = len(broker.logs[0]) - before
        assert counts["throughput"] <= 8
        assert min(counts["latency"], counts["tuned"], counts["small"]) >= 15, counts

    play(scene)


def test_records_without_a_key_use_all_partitions(play: Play) -> None:
    async def scene(broker: ScriptedBroker, hall: Hall, world: SimulatedWorld) -> None:
        producer = Producer(hall, world.clock, Options(linger_ms=0))
        for number in range(20):
            await producer.send("t", b"%d" % number)
            await producer.flush()
        assert broker.ends == {0: 10, 1: 10}

    play(scene)


def test_failures_are_retried_without_loss_or_repetition(play: Play) -> None:
    async def scene(broker: ScriptedBroker, hall: Hall, world: SimulatedWorld) -> None:
        producer = Producer(hall, world.clock, Options(batch_bytes_max=200, compression=ZSTD))
        broker.mishaps = {
            PRODUCE: [LOSE, DROP, 6, LOSE, LOSE, 7, SILENT, 3, DROP, LOSE] * 3,
            INIT_PRODUCER_ID: [DROP, 14],
            FETCH: [DROP, 6, LOSE],
        }
        sent = [await producer.send("t", b"%d" % number, partition=number % 2) for number in range(200)]
        await producer.flush()
        for each in sent:
            each.result()
        expected = [[b"%d" % number for number in range(200) if number % 2 == part] for part in (0, 1)]
        found = await read_all(hall)
        assert [found[0], found[1]] == expected

    play(scene)


def test_a_refusal_is_raised_to_the_sender(play: Play) -> None:
    async def scene(broker: ScriptedBroker, hall: Hall, world: SimulatedWorld) -> None:
        producer = Producer(hall, world.clock)
        broker.mishaps = {PRODUCE: [10]}
        refused = await producer.send("t", b"large", partition=0)
        await producer.flush()
        with pytest.raises(Refused) as refusal:
            refused.result()
        assert refusal.value.code is Code.MESSAGE_TOO_LARGE
        accepted = await producer.send("t", b"small", partition=0)
        await producer.flush()
        assert accepted.result().offset == 0

    play(scene)


def test_a_producer_continues_with_a_new_identity_after_an_outage(play: Play) -> None:
    async def scene(broker: ScriptedBroker, hall: Hall, world: SimulatedWorld) -> None:
        producer = Producer(hall, world.clock, Options(delivery_timeout_ms=2_000))
        await producer.send("t", b"first", partition=0)
        await producer.flush()
        broker.mishaps = {PRODUCE: [LOSE, *[DROP] * 50]}
        lost = await producer.send("t", b"unknown", partition=0)
        await producer.flush()
        with pytest.raises(Unreachable):
            lost.result()
        broker.mishaps = {}
        after = await producer.send("t", b"after", partition=0)
        await producer.flush()
        assert after.result().offset == 2
        assert broker.next_producer_id == 1002

    play(scene)


def test_sends_without_acknowledgement_do_not_wait(play: Play) -> None:
    async def scene(broker: ScriptedBroker, hall: Hall, world: SimulatedWorld) -> None:
        producer = Producer(hall, world.clock, Options(acks=0, idempotent=False))
        sent = await producer.send("t", b"gone", partition=0)
        await producer.flush()
        assert sent.result().offset == -1
        await asyncio.sleep(1)
        assert broker.ends[0] == 1

    play(scene)


def test_the_buffer_is_bounded(play: Play) -> None:
    async def scene(broker: ScriptedBroker, hall: Hall, world: SimulatedWorld) -> None:
        producer = Producer(hall, world.clock, Options(buffer_bytes_max=1_000, linger_ms=1))
        broker.mishaps = {PRODUCE: [SILENT]}
        waits = 0
        for _ in range(10):
            try:
                async with asyncio.timeout(0.5):
                    await producer.send("t", bytes(300), partition=0)
            except TimeoutError:
                waits += 1
        assert waits == 7

    play(scene)


def test_the_requests_of_a_transaction_are_in_order(play: Play) -> None:
    async def scene(broker: ScriptedBroker, hall: Hall, world: SimulatedWorld) -> None:
        producer = Producer(hall, world.clock, Options(transactional_id="mine"))
        with pytest.raises(LonghallError) as refusal:
            await producer.send("t", b"too early")
        assert refusal.value.code is Code.INVALID_TRANSACTION_STATE
        with pytest.raises(LonghallError):
            await producer.commit()

    play(scene)

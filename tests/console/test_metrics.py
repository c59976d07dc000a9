"""The exposition as Prometheus reads it, checked with Prometheus's own parser."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from longhall.console.families import HallFamilies
from longhall.console.metrics import Block, Family, Registry, blocks_of, family_lines, gauge, labels
from longhall.console.process import process_families
from longhall.console.sources import PartitionStatus, TopicStatus
from longhall.console.windows import WINDOW_MS, QuantileWindow
from longhall.meters import Histogram, quantile
from tests.console.fake_hall import FakeClock, FakeHall

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def parsed(text: str) -> Samples:
    """Every sample once, each family once, help and type before the first sample."""
    samples: Samples = {}
    types = [line.split()[2] for line in text.splitlines() if line.startswith("# TYPE ")]
    assert len(types) == len(set(types))
    for family in text_string_to_metric_families(text):
        assert family.documentation, family.name
        assert family.type != "unknown", family.name
        for sample in family.samples:
            key = (sample.name, frozenset(sample.labels.items()))
            assert key not in samples, key
            samples[key] = sample.value
    return samples


async def scraped(hall: FakeHall, clock: FakeClock | None = None) -> Samples:
    registry = Registry()
    HallFamilies(hall, clock or FakeClock()).register(registry)
    registry.collect(process_families)
    return parsed((await registry.render()).decode())


def value(samples: Samples, name: str, **labels: str) -> float:
    return samples[(name, frozenset(labels.items()))]


async def test_the_names_that_kafka_dashboards_know() -> None:
    samples = await scraped(FakeHall())
    assert value(samples, "kafka_brokers") == 1
    assert value(samples, "kafka_broker_info", id="1", address="127.0.0.1:9092") == 1
    assert value(samples, "kafka_topic_partitions", topic="orders") == 2
    assert value(samples, "kafka_topic_partitions", topic="empty") == 0
    assert value(samples, "kafka_topic_partition_current_offset", topic="orders", partition="0") == 25
    assert value(samples, "kafka_topic_partition_oldest_offset", topic="orders", partition="0") == 5
    assert value(samples, "kafka_log_log_size", topic="orders", partition="0") == 4096
    assert value(samples, "kafka_server_brokertopicmetrics_messagesin_total") == 33
    assert value(samples, "kafka_server_brokertopicmetrics_messagesin_total", topic="orders") == 32
    assert value(samples, "longhall_throttled_total", topic="orders") == 3
    assert value(samples, "kafka_server_replicamanager_partitioncount") == 2
    assert (
        value(samples, "kafka_network_requestmetrics_errors_total", request="Produce", error="NOT_LEADER_OR_FOLLOWER")
        == 2
    )


async def test_lag_in_messages_and_in_seconds() -> None:
    samples = await scraped(FakeHall())
    group = 'odd "name"\\\n'  # The parser gives back the very name, so it was escaped rightly.
    assert value(samples, "kafka_consumergroup_members", consumergroup=group) == 3
    assert value(samples, "kafka_consumergroup_lag", consumergroup=group, topic="orders", partition="0") == 5
    assert value(samples, "kafka_consumergroup_lag_seconds", consumergroup=group, topic="orders", partition="0") == 1.5
    assert value(samples, "kafka_consumergroup_lag_sum", consumergroup=group, topic="orders") == 5
    assert value(samples, "kafka_consumergroup_lag", consumergroup=group, topic="spread", partition="2") == 3
    assert value(samples, "kafka_consumergroup_current_offset", consumergroup=group, topic="spread", partition="2") == 8
    assert value(samples, "kafka_consumergroup_current_offset_sum", consumergroup=group, topic="orders") == 27
    unknown = (
        "kafka_consumergroup_lag_seconds",
        frozenset({"consumergroup": group, "topic": "orders", "partition": "1"}.items()),
    )
    assert unknown not in samples


async def test_what_only_longhall_has() -> None:
    hall = FakeHall()
    hall.state.sync_seconds.observe(0.0004)
    hall.state.sync_seconds.observe(1000.0)
    hall.not_ready = "starting"
    samples = await scraped(hall)
    assert value(samples, "longhall_wal_bytes_total") == 1 << 40
    assert value(samples, "longhall_damaged_ranges") == 1
    assert value(samples, "longhall_disk_full") == 1
    assert value(samples, "longhall_ready") == 0
    assert value(samples, "longhall_sync_seconds_bucket", le="0.00025") == 0
    assert value(samples, "longhall_sync_seconds_bucket", le="0.0005") == 1
    assert value(samples, "longhall_sync_seconds_bucket", le="100.0") == 1
    assert value(samples, "longhall_sync_seconds_bucket", le="+Inf") == 2
    assert value(samples, "longhall_sync_seconds_count") == 2


async def test_the_process() -> None:
    samples = await scraped(FakeHall())
    assert value(samples, "process_resident_memory_bytes") > 1 << 20
    assert value(samples, "process_open_fds") >= 3
    assert value(samples, "process_cpu_seconds_total") > 0
    assert value(samples, "process_start_time_seconds") > 1_600_000_000


async def test_quantiles_are_of_the_last_minutes_in_milliseconds() -> None:
    hall, clock = FakeHall(), FakeClock()
    registry = Registry()
    HallFamilies(hall, clock).register(registry)

    async def median_ms() -> float:
        samples = parsed((await registry.render()).decode())
        return value(samples, "kafka_network_requestmetrics_totaltimems", request="Produce", quantile="0.5")

    for _ in range(1000):
        hall.produce.seconds.observe(0.8)
    assert 500 <= await median_ms() <= 1000
    clock.now_ms += WINDOW_MS
    await median_ms()
    for _ in range(10):
        hall.produce.seconds.observe(0.0009)
    clock.now_ms += WINDOW_MS
    assert 0.5 <= await median_ms() <= 1


def _threads(number: int) -> list[Family]:
    return [gauge("process_threads", "Threads.", number)]


async def test_several_processes_are_shown_as_one_each_family_in_one_place() -> None:
    registries = [Registry(labels(("worker", str(number)))) for number in (1, 2, 3)]
    for number, registry in enumerate(registries, 1):
        registry.collect(partial(_threads, number))
        HallFamilies(FakeHall(), FakeClock()).register(registry)
    registries[2].collect(lambda: [gauge("only_there", 'With # HELP and a \\ in it, and "quotes".', 7)])

    async def others() -> dict[str, list[Block]]:
        found: dict[str, list[Block]] = {}
        for registry in registries[1:]:
            for name, block in blocks_of((await registry.render()).decode()).items():
                found.setdefault(name, []).append(block)
        return found

    alone = parsed((await registries[0].render()).decode())
    registries[0].others = others
    samples = parsed((await registries[0].render()).decode())
    assert len(samples) == 3 * len(alone) + 1
    for number in (1, 2, 3):
        assert value(samples, "process_threads", worker=str(number)) == number
    assert value(samples, "only_there", worker="3") == 7
    assert {dict(labelled)["worker"] for _, labelled in samples} == {"1", "2", "3"}


async def test_scrapes_that_overlap_share_one_rendering_and_survive_each_other() -> None:
    calls = 0
    registry = Registry()

    def collector() -> list[Family]:
        nonlocal calls
        calls += 1
        return [gauge("longhall_ready", "1 when every door is open.", calls)]

    registry.collect(collector)
    first, second = asyncio.create_task(registry.render()), asyncio.create_task(registry.render())
    await asyncio.sleep(0)
    first.cancel()
    assert b"longhall_ready 1\n" in await second
    assert b"longhall_ready 2\n" in await registry.render()


async def test_a_large_hall_is_rendered_while_the_loop_goes_on() -> None:
    hall = FakeHall()
    hall.topic_list = [TopicStatus(f"t{number}", [PartitionStatus(0, 0, number)]) for number in range(1000)]
    registry = Registry()
    HallFamilies(hall, FakeClock()).register(registry)
    rendering = asyncio.create_task(registry.render())
    turns = 0
    while not rendering.done():
        turns += 1
        await asyncio.sleep(0)
    assert turns > 10
    assert (
        value(parsed(rendering.result().decode()), "kafka_topic_partition_current_offset", topic="t999", partition="0")
        == 999
    )


@given(
    st.text(), st.text(alphabet=st.characters(exclude_characters="\r")), st.floats() | st.integers(-(1 << 63), 1 << 63)
)
def test_any_label_and_any_value_can_be_read_back(label: str, help: str, number: float) -> None:
    samples = [("", labels(("topic", label)), number)]
    text = "".join(family_lines(Family("longhall_ready", "gauge", "Help: " + help, samples)))
    assert text.count("\n") == 3
    lines = text.split("\n")[2]
    (family,) = text_string_to_metric_families("# TYPE longhall_ready gauge\n" + lines + "\n")
    (sample,) = family.samples
    assert sample.labels == {"topic": label}
    assert sample.value == pytest.approx(number, rel=1e-15, nan_ok=True)


@given(st.lists(st.floats(0.0001, 50.0), min_size=1), st.floats(0.01, 1.0))
def test_a_quantile_lies_in_the_step_of_the_value_it_stands_for(values: list[float], share: float) -> None:
    histogram = Histogram()
    for each in values:
        histogram.observe(each)
    bounds = (0.0, *histogram.bounds)
    estimate = quantile(histogram.bounds, histogram.counts, share)
    below = sum(each <= next(bound for bound in bounds if bound >= estimate) for each in values)
    assert below >= share * len(values) * (1 - 1e-9)
    assert histogram.count == len(values)


def test_nothing_seen_is_nothing_reported() -> None:
    assert quantile(Histogram().bounds, Histogram().counts, 0.99) == 0
    beyond = Histogram((1.0,))
    beyond.observe(5.0)
    assert quantile(beyond.bounds, beyond.counts, 0.5) == 1.0
    assert QuantileWindow().recent(Histogram(), 0).quantile(0.5) == 0

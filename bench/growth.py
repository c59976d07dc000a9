"""How a node behaves when it grows: many partitions, idle ones, a long log, readers of cold data.

Records have 1 KB and producers linger 5 ms. Compared measurements (many partitions and one, writers with and without a
reader) alternate, so that variations of the machine affect both. A restart lasts until the node has answered with the
end of a partition, not only until it listens.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from confluent_kafka import KafkaException

from bench import machine
from bench.kafka import say
from bench.load import fetch, generator, topics
from bench.measure import disk, process
from bench.measure.figures import latency_figures
from bench.peers.kafka import ApacheKafka
from bench.peers.longhall import Longhall
from bench.peers.node import START_SECONDS_MAX, Node

_RESULTS = Path(__file__).with_name("results")
_RECORD_BYTES = 1024
_LOG_BATCH_BYTES = 65536
PEERS: dict[str, Callable[[], Node]] = {"longhall": Longhall, "kafka": ApacheKafka}

Figures = dict[str, float]


@dataclass(frozen=True)
class Sizes:
    """The sizes of all parts; the quick ones only show that the bench works."""

    rounds: int = 5
    seconds: float = 4.0
    active_partitions: int = 1000
    idle_partitions: int = 4000
    short_log_messages: int = 100_000
    long_log_messages: int = 10_000_000
    fetches: int = 2000
    writer_rate: float = 20_000.0

    @property
    def disk_bytes_needed(self) -> int:
        return int(self.long_log_messages * _RECORD_BYTES * 1.5) + 2_000_000_000


QUICK = Sizes(
    rounds=2, seconds=2.0, active_partitions=200, idle_partitions=500, long_log_messages=1_000_000, fetches=500
)


def active_partitions(peer: Callable[[], Node], sizes: Sizes) -> Figures:
    """Throughput over many partitions beside throughput over one.

    Spread as clients do without keys, 16 KB to a partition and then to the next, and as with keys, every record to
    another one. librdkafka sends a request for each partition, so that with keys a request holds about one record.
    """
    variants = {"one": (1, 1), "spread": (sizes.active_partitions, 16), "keyed": (sizes.active_partitions, 1)}
    rates: dict[str, list[float]] = {name: [] for name in variants}
    cores: dict[str, list[float]] = {name: [] for name in variants}
    with peer() as broker:
        for count in (1, sizes.active_partitions):
            topics.create(broker.address, f"active-{count}", partitions=count)
        for number in range(-1, sizes.rounds):
            for name in sorted(variants, reverse=bool(number % 2)):
                os.sync()
                before = process.usage(broker.pid)
                count, run_messages = variants[name]
                run = generator.produce(
                    broker.address,
                    f"active-{count}",
                    partitions=count,
                    size_bytes=_RECORD_BYTES,
                    seconds=sizes.seconds if number >= 0 else 1.0,
                    run_messages=run_messages,
                )
                if number >= 0:  # The first round only warms the broker.
                    rates[name].append(run.messages_per_second)
                    cores[name].append(process.usage(broker.pid).since(before)[0] / run.seconds)
    figures: Figures = {"partitions": sizes.active_partitions}
    for name in variants:
        figures[f"{name}_per_second"] = statistics.median(rates[name])
        figures[f"{name}_broker_cores"] = statistics.median(cores[name])
        figures[f"{name}_to_one"] = statistics.median(
            many / one for one, many in zip(rates["one"], rates[name], strict=True)
        )
    return figures


def idle_partitions(peer: Callable[[], Node], sizes: Sizes) -> Figures:
    """Memory and restart of a node with many partitions that hold one message each and see no traffic."""
    topics_count = max(1, sizes.idle_partitions // 1000)
    width = sizes.idle_partitions // topics_count
    with peer() as broker:
        fresh = process.memory(broker.pid).resident_bytes
        for number in range(topics_count):
            topics.create(broker.address, f"idle-{number}", partitions=width)
            generator.fill(broker.address, f"idle-{number}", partitions=width, size_bytes=_RECORD_BYTES, count=width)
        filled = process.memory(broker.pid)
        broker.stop()
        clean_seconds = _start_until_told(broker, "idle-0", width - 1)
        restarted = process.memory(broker.pid)
        assert topics.end_offset(broker.address, "idle-0", width - 1) == 1, "the last partition lost its message"
        broker.kill()
        killed_seconds = _start_until_told(broker, "idle-0", width - 1)
        return {
            "partitions": topics_count * width,
            "fresh_mb": fresh / 1e6,
            "resident_mb": filled.resident_bytes / 1e6,
            "proportional_mb": filled.proportional_bytes / 1e6,
            "restarted_resident_mb": restarted.resident_bytes / 1e6,
            "restart_clean_seconds": clean_seconds,
            "restart_killed_seconds": killed_seconds,
        }


def long_log(peer: Callable[[], Node], sizes: Sizes) -> dict[str, Figures]:
    """A long log: its fetch cost beside a short one's, its restart, and writers beside a reader of its cold part."""
    with peer() as broker:
        say(f"{broker.name}: writing the long log")
        for topic, count in (("short", sizes.short_log_messages), ("log", sizes.long_log_messages)):
            topics.create(broker.address, topic)
            # Batches of 64 KB: a fetch returns whole batches, and large ones would hide the cost of finding them.
            generator.fill(
                broker.address,
                topic,
                partitions=1,
                size_bytes=_RECORD_BYTES,
                count=count,
                batch_bytes=_LOG_BATCH_BYTES,
            )
        fetches = _fetches(broker, sizes)
        broker.stop()
        size_bytes = disk.drop_cache(broker.directory)
        restart = {"gigabytes": size_bytes / 1e9, "restart_clean_seconds": _start_until_told(broker, "log", 0)}
        beside = _writers_and_reader(broker, sizes)
    return {**fetches, "restart": restart, **beside}


def _start_until_told(broker: Node, topic: str, partition: int) -> float:
    """Start a stopped node; the seconds until it answered with the end of that partition."""
    began = time.monotonic()
    broker.start()
    while True:
        try:
            topics.end_offset(broker.address, topic, partition)
            return time.monotonic() - began
        except KafkaException:
            if time.monotonic() - began > START_SECONDS_MAX:
                raise
            time.sleep(0.02)


def _fetches(broker: Node, sizes: Sizes) -> dict[str, Figures]:
    """Fetches at random offsets of the short and the long log, in alternation; the first ones only warm the broker.

    Both logs are in the page cache, so that the cost of finding an offset is measured, and not the disk.
    """
    taken: dict[str, list[Figures]] = {"short": [], "log": []}
    for number in range(-1, sizes.rounds):
        disk.fill_cache(broker.directory)
        for topic in sorted(taken, reverse=bool(number % 2)):
            end = topics.end_offset(broker.address, topic)
            before = process.usage(broker.pid)
            samples = fetch.random_fetch_latencies_ns(
                broker.address, topic, end_offset=end, count=sizes.fetches, seed=number
            )
            cpu_seconds = process.usage(broker.pid).since(before)[0]
            if number >= 0:
                figures = {**latency_figures(samples), "end_offset": float(end)}
                taken[topic].append({**figures, "broker_cpu_us": cpu_seconds / sizes.fetches * 1e6})
    ratio = statistics.median(
        long["p50_ms"] / short["p50_ms"] for short, long in zip(taken["short"], taken["log"], strict=True)
    )
    return {
        "fetch_short": _median_figures(taken["short"]),
        "fetch_long": {**_median_figures(taken["log"]), "p50_to_short": ratio},
    }


def _writers_and_reader(broker: Node, sizes: Sizes) -> dict[str, Figures]:
    """A steady writer alone and beside a reader that finds nothing in the page cache, in alternation."""
    alone: list[Figures] = []
    beside: list[Figures] = []
    read_rates: list[float] = []
    topics.create(broker.address, "written")
    _write(broker, sizes)
    for number in range(sizes.rounds):
        for with_reader in (False, True) if number % 2 == 0 else (True, False):
            os.sync()
            disk.drop_cache(broker.directory)
            if not with_reader:
                alone.append(_write(broker, sizes))
                continue
            reader = generator.begin_consume(
                broker.address, "log", partitions=1, count=sizes.long_log_messages, seconds_max=sizes.seconds + 1
            )
            beside.append(_write(broker, sizes))
            read_rates.append(reader.finish().megabytes_per_second)
    return {
        "writers_alone": _median_figures(alone),
        "writers_beside_reader": {
            **_median_figures(beside),
            "reader_megabytes_per_second": statistics.median(read_rates),
            "p99_ratio": statistics.median(b["p99_ms"] / a["p99_ms"] for a, b in zip(alone, beside, strict=True)),
        },
    }


def _write(broker: Node, sizes: Sizes) -> Figures:
    run = generator.pace(
        broker.address,
        "written",
        partitions=1,
        size_bytes=_RECORD_BYTES,
        seconds=sizes.seconds,
        rate=sizes.writer_rate,
    )
    return {**latency_figures(run.latencies_ns), "messages_per_second": run.messages_per_second}


def _median_figures(rounds: list[Figures]) -> Figures:
    return {key: statistics.median(each[key] for each in rounds) for key in rounds[0]}


def run(names: list[str], sizes: Sizes, parts: list[str]) -> dict[str, object]:
    free = shutil.disk_usage(tempfile.gettempdir()).free
    if "log" in parts and free < sizes.disk_bytes_needed:
        raise SystemExit(f"the long log needs {sizes.disk_bytes_needed / 1e9:.0f} GB, {free / 1e9:.0f} GB are free")
    brokers: dict[str, object] = {}
    for name in names:
        figures: dict[str, object] = {}
        if "active" in parts:
            say(f"{name}: active partitions")
            figures["active"] = active_partitions(PEERS[name], sizes)
        if "idle" in parts:
            say(f"{name}: idle partitions")
            figures["idle"] = idle_partitions(PEERS[name], sizes)
        if "log" in parts:
            say(f"{name}: a long log")
            figures["log"] = long_log(PEERS[name], sizes)
        brokers[name] = figures
    return {"machine": machine.describe(), "taken": time.strftime("%Y-%m-%d", time.gmtime()), "brokers": brokers}


def main(arguments: list[str]) -> None:
    from bench import report

    parser = argparse.ArgumentParser(prog="bench growth", description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="small sizes, not published: a check that the bench works")
    parser.add_argument("--brokers", default="longhall,kafka", help="separated by commas (default: %(default)s)")
    parser.add_argument("--parts", default="active,idle,log", help="separated by commas (default: %(default)s)")
    parser.add_argument("--rounds", type=int, help="of what is compared in alternation")
    parser.add_argument("--publish", action=argparse.BooleanOptionalAction, help="write docs/benchmarks.md (full runs)")
    given = parser.parse_args(arguments)
    names = [name for name in given.brokers.split(",") if name in PEERS]
    parts = given.parts.split(",")
    sizes = QUICK if given.quick else Sizes()
    result = run(names, replace(sizes, rounds=given.rounds or sizes.rounds), parts)
    _RESULTS.mkdir(exist_ok=True)
    kept = _RESULTS / f"growth-{time.strftime('%Y%m%d-%H%M%S')}.json"
    kept.write_text(json.dumps(result, indent=1) + "\n")
    print(report.growth_tables(result))
    whole = not given.quick and "longhall" in names and len(parts) == 3
    if given.publish or (given.publish is None and whole):
        (_RESULTS / "growth.json").write_text(kept.read_text())
        report.publish()

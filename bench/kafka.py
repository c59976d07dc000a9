"""Longhall beside Apache Kafka 4, through the same librdkafka client, with acks=all.

Three brokers run at once: Longhall, Kafka with its own defaults, and Kafka syncing every message. A round takes every
line on each of them in turn, and each round begins with another broker, so that other load on the machine affects all
alike. Each measurement waits until the files that earlier ones deleted are gone and the file system is synced, so that
no broker pays for another's work.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from bench import machine
from bench.load import generator, topics
from bench.load.generator import Run
from bench.measure import disk, process
from bench.measure.figures import latency_figures
from bench.peers.kafka import ApacheKafka
from bench.peers.longhall import Longhall
from bench.peers.node import Node

ROUNDS = 5
SECONDS = 2.5
CLIENTS_MANY = 4
STILL_SECONDS_MAX = 20.0
SIZES_BYTES = {"1k": 1024, "100b": 100}
_FILL_MESSAGES = {"1k": 1_500_000, "100b": 6_000_000}
_RESULTS = Path(__file__).with_name("results")

PEERS: dict[str, Callable[[], Node]] = {
    "longhall": Longhall,
    "kafka": ApacheKafka,
    "kafka-flush": lambda: ApacheKafka(flush_every_message=True),
}

Figures = dict[str, float]
Round = dict[str, dict[str, Figures]]


class Bench:
    """One run: the brokers that are up, and every figure taken so far."""

    def __init__(self, brokers: list[Node], *, seconds: float, fill_share: float) -> None:
        self._brokers = brokers
        self._seconds = seconds
        self._fill = {size: int(count * fill_share) for size, count in _FILL_MESSAGES.items()}
        self._number = 0

    def prepare(self) -> None:
        """Write what the consume lines read; this also warms the compiler and the caches of every broker."""
        for broker in self._brokers:
            for label, size_bytes in SIZES_BYTES.items():
                say(f"filling and warming {broker.name} at {label}")
                topics.create(broker.address, f"fill-{label}")
                written = generator.fill(
                    broker.address, f"fill-{label}", partitions=1, size_bytes=size_bytes, count=self._fill[label]
                )
                generator.consume(broker.address, f"fill-{label}", partitions=1, count=written.messages, seconds_max=60)

    def round(self, number: int) -> Round:
        """Every line on every broker; the broker that begins changes with the number."""
        shift = number % len(self._brokers)
        order = self._brokers[shift:] + self._brokers[:shift]
        lines: Round = {}
        for label, size_bytes in SIZES_BYTES.items():
            lines[f"produce_{label}"] = {each.name: self._produce(each, size_bytes) for each in order}
            lines[f"consume_{label}"] = {each.name: self._consume(each, label) for each in order}
        lines["produce_1k_many"] = {each.name: self._produce_many(each) for each in order}
        lines["ping_1k"] = {each.name: self._ping(each) for each in order}
        most = {name: figures["messages_per_second"] for name, figures in lines["produce_1k"].items()}
        same = min(rate for name, rate in most.items() if name != "kafka-flush" or len(most) == 1) / 2
        lines["half_own_1k"] = {each.name: self._pace(each, most[each.name] / 2) for each in order}
        lines["half_same_1k"] = {each.name: self._pace(each, same) for each in order if same < most[each.name]}
        lines["memory"] = {each.name: _memory(each) for each in order}
        return lines

    def _produce(self, broker: Node, size_bytes: int) -> Figures:
        topic = self._topic(broker)
        figures = self._measured(
            broker,
            lambda: generator.produce(
                broker.address, topic, partitions=1, size_bytes=size_bytes, seconds=self._seconds
            ),
        )
        stored = topics.end_offset(broker.address, topic)
        # One message was sent before the clock started.
        assert stored == figures["messages"] + 1, f"{broker.name} stored {stored} of {figures['messages'] + 1:.0f}"
        topics.delete(broker.address, topic)
        return figures

    def _produce_many(self, broker: Node) -> Figures:
        """Several clients at once, each with a connection and a partition of its own."""
        made = [self._topic(broker) for _ in range(CLIENTS_MANY)]
        figures = self._measured(
            broker,
            lambda: generator.produce_together(broker.address, made, size_bytes=1024, seconds=self._seconds),
        )
        topics.delete(broker.address, *made)
        return figures

    def _consume(self, broker: Node, label: str) -> Figures:
        count = self._fill[label]
        disk.fill_cache(broker.directory)  # Some machines evict pages that were not used for a minute.
        return self._measured(
            broker,
            lambda: generator.consume(
                broker.address, f"fill-{label}", partitions=1, count=count, seconds_max=self._seconds
            ),
        )

    def _ping(self, broker: Node) -> Figures:
        topic = self._topic(broker)
        return self._measured(
            broker, lambda: generator.ping(broker.address, topic, size_bytes=1024, seconds=self._seconds)
        )

    def _pace(self, broker: Node, rate: float) -> Figures:
        topic = self._topic(broker)
        figures = self._measured(
            broker,
            lambda: generator.pace(
                broker.address, topic, partitions=1, size_bytes=1024, seconds=self._seconds, rate=rate
            ),
        )
        topics.delete(broker.address, topic)
        return {**figures, "asked_per_second": rate}

    def _topic(self, broker: Node) -> str:
        self._number += 1
        topic = f"bench-{self._number}"
        topics.create(broker.address, topic)
        return topic

    def _measured(self, broker: Node, work: Callable[[], Run]) -> Figures:
        disk.wait_until_still([each.directory for each in self._brokers], seconds_max=STILL_SECONDS_MAX)
        before, machine_before = process.usage(broker.pid), process.machine_cpu_seconds()
        run = work()
        broker_cpu, broker_busiest = process.usage(broker.pid).since(before)
        everything = process.machine_cpu_seconds() - machine_before
        figures: Figures = {
            "messages": run.messages,
            "messages_per_second": run.messages_per_second,
            "megabytes_per_second": run.megabytes_per_second,
            "seconds": run.seconds,
            "client_cpu_seconds": run.cpu_seconds,
            "client_busiest_thread_seconds": run.busiest_thread_seconds,
            "broker_cpu_seconds": broker_cpu,
            "broker_busiest_thread_seconds": broker_busiest,
            # CPU time of other processes; a run with much of it says little.
            "others_cpu_seconds": max(0.0, everything - broker_cpu - run.cpu_seconds),
        }
        if run.latencies_ns:
            figures |= latency_figures(run.latencies_ns)
        return figures


def say(words: str) -> None:
    print(f"  {words}", file=sys.stderr, flush=True)


def starts(names: list[str]) -> dict[str, Figures]:
    """Start time and memory of fresh nodes in empty directories."""
    figures: dict[str, Figures] = {}
    for name in names:
        with PEERS[name]() as broker:
            figures[name] = {"start_seconds": broker.start_seconds, **_memory(broker)}
    return figures


def sync_probe(seconds: float) -> dict[str, Figures]:
    with tempfile.TemporaryDirectory(prefix="bench-disk-") as directory:
        return {
            label: latency_figures(disk.sync_latencies_ns(Path(directory), size_bytes=size_bytes, seconds=seconds))
            for label, size_bytes in (("1 KB", 1024), ("64 KB", 65536))
        }


def run(names: list[str], *, rounds: int, seconds: float, fill_share: float) -> dict[str, object]:
    began = time.time()
    result: dict[str, object] = {
        "machine": machine.describe(),
        "taken": time.strftime("%Y-%m-%d", time.gmtime(began)),
        "settings": {"rounds": rounds, "seconds": seconds, "brokers": names},
    }
    with contextlib.ExitStack() as stack:
        brokers = [stack.enter_context(PEERS[name]()) for name in names]
        bench = Bench(brokers, seconds=seconds, fill_share=fill_share)
        bench.prepare()
        taken: list[Round] = []
        for number in range(rounds):
            say(f"round {number + 1} of {rounds}")
            lines = bench.round(number)
            lines["disk"] = sync_probe(seconds / 3)
            shift = number % len(names)
            lines["start"] = starts([name for name in names[shift:] + names[:shift] if name != "kafka-flush"])
            taken.append(lines)
        result["rounds"] = taken
    result["bench_seconds"] = round(time.time() - began)
    return result


def _memory(broker: Node) -> Figures:
    weight = process.memory(broker.pid)
    return {"resident_mb": weight.resident_bytes / 1e6, "proportional_mb": weight.proportional_bytes / 1e6}


def main(arguments: list[str]) -> None:
    from bench import report

    parser = argparse.ArgumentParser(prog="bench kafka", description=__doc__.split("\n")[0])
    parser.add_argument(
        "--quick", action="store_true", help="one short round, not published: a check that the bench works"
    )
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--seconds", type=float, default=SECONDS, help="length of one measurement")
    parser.add_argument("--only", default=",".join(PEERS), help="brokers, separated by commas (default: %(default)s)")
    parser.add_argument("--publish", action=argparse.BooleanOptionalAction, help="write docs/benchmarks.md (full runs)")
    given = parser.parse_args(arguments)
    names = [name for name in given.only.split(",") if name in PEERS]
    whole = not given.quick and len(names) == len(PEERS)
    result = run(
        names,
        rounds=1 if given.quick else given.rounds,
        seconds=min(given.seconds, 2.0) if given.quick else given.seconds,
        fill_share=0.3 if given.quick else 1.0,
    )
    _RESULTS.mkdir(exist_ok=True)
    kept = _RESULTS / f"kafka-{time.strftime('%Y%m%d-%H%M%S')}.json"
    kept.write_text(json.dumps(result, indent=1) + "\n")
    print(report.kafka_tables(result))
    if given.publish or (given.publish is None and whole):
        (_RESULTS / "kafka.json").write_text(kept.read_text())
        report.publish()

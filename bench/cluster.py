"""Three Longhall nodes beside three Apache Kafka nodes on one machine, through the same librdkafka client, acks=all.

Both clusters have three replicas, refuse writes with fewer than two in sync, and are up all the time: one is loaded
while the other idles. A round takes every line on each of them in turn, and each round begins with another one. Each
measurement waits until the files that earlier ones deleted are gone and the file system is synced, so that no cluster
pays for another's work. Further parts measure each cluster alone: many queues, one hot queue beside another, and how
long a producer waits when the leader is killed.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from bench import machine
from bench.cluster_steps import Sizes, failover, hot, many
from bench.kafka import SIZES_BYTES, STILL_SECONDS_MAX, say, sync_probe
from bench.load import generator, topics
from bench.load.generator import Run
from bench.measure import disk, process
from bench.measure.figures import latency_figures
from bench.peers.trio import NODES, TRIOS, LonghallTrio, Trio

ROUNDS = 4
SECONDS = 2.5
PARTS = ("rounds", "many", "hot", "failover")
DEFAULT_TRIOS = "longhall,kafka"
_FILL_MESSAGES = {"1k": 500_000, "100b": 3_000_000}
_RESULTS = Path(__file__).with_name("results")

Figures = dict[str, float]
Round = dict[str, dict[str, Figures]]


@dataclass(frozen=True)
class Work:
    """CPU seconds used so far, by role."""

    leader: process.Usage
    followers: list[process.Usage]
    whole_seconds: float

    @staticmethod
    def of(trio: Trio, leader: int) -> Work:
        others = [process.usage(pid) for node, pid in trio.nodes.items() if node != leader]
        led = process.usage(trio.nodes[leader])
        together = led.cpu_seconds + sum(each.cpu_seconds for each in others)
        return Work(led, others, process.usage(trio.beside).cpu_seconds if trio.beside else together)

    def since(self, earlier: Work) -> Figures:
        led, busiest = self.leader.since(earlier.leader)
        followed = sum(now.since(then)[0] for now, then in zip(self.followers, earlier.followers, strict=True))
        whole = self.whole_seconds - earlier.whole_seconds
        return {
            "broker_cpu_seconds": whole,
            "broker_busiest_thread_seconds": busiest,
            "leader_cpu_seconds": led,
            "followers_cpu_seconds": followed,
            "beside_cpu_seconds": max(0.0, whole - led - followed),
        }


class Bench:
    """One run: the clusters that are up, and the lines of each round."""

    def __init__(self, trios: list[Trio], *, seconds: float, fill_share: float) -> None:
        self._trios = trios
        self._seconds = seconds
        self._fill = {size: int(count * fill_share) for size, count in _FILL_MESSAGES.items()}
        self._number = 0

    def prepare(self) -> None:
        """Write what the consume lines read; this also warms every node."""
        for trio in self._trios:
            for label, size_bytes in SIZES_BYTES.items():
                say(f"filling and warming {trio.name} at {label}")
                topics.create(trio.address, f"fill-{label}", replicas=NODES)
                written = generator.fill(
                    trio.address, f"fill-{label}", partitions=1, size_bytes=size_bytes, count=self._fill[label]
                )
                generator.consume(trio.address, f"fill-{label}", partitions=1, count=written.messages, seconds_max=60)

    def round(self, number: int) -> Round:
        """Every line on every cluster; the one that begins changes with the number."""
        shift = number % len(self._trios)
        order = self._trios[shift:] + self._trios[:shift]
        lines: Round = {}
        for label, size_bytes in SIZES_BYTES.items():
            lines[f"produce_{label}"] = {each.name: self._produce(each, size_bytes) for each in order}
            lines[f"consume_{label}"] = {each.name: self._consume(each, label) for each in order}
        lines["ping_1k"] = {each.name: self._ping(each) for each in order}
        most = {name: figures["messages_per_second"] for name, figures in lines["produce_1k"].items()}
        same = min(rate for name, rate in most.items() if name != "kafka-flush" or len(most) == 1) / 2
        lines["half_own_1k"] = {each.name: self._pace(each, most[each.name] / 2) for each in order}
        lines["half_same_1k"] = {each.name: self._pace(each, same) for each in order if same < most[each.name]}
        lines["memory"] = {each.name: _memory(each) for each in order}
        return lines

    def _produce(self, trio: Trio, size_bytes: int) -> Figures:
        topic = self._topic(trio)
        figures = self._measured(
            trio,
            topic,
            lambda: generator.produce(trio.address, topic, partitions=1, size_bytes=size_bytes, seconds=self._seconds),
        )
        stored = topics.end_offset(trio.address, topic)
        # One message was sent before the clock started.
        assert stored == figures["messages"] + 1, f"{trio.name} stored {stored} of {figures['messages'] + 1:.0f}"
        topics.delete(trio.address, topic)
        return figures

    def _consume(self, trio: Trio, label: str) -> Figures:
        topic = f"fill-{label}"
        count = self._fill[label]
        # Read once before: other lines may have evicted it from the page cache, and how much depends on the order of
        # the turns.
        generator.consume(trio.address, topic, partitions=1, count=count, seconds_max=60)
        return self._measured(
            trio,
            topic,
            lambda: generator.consume(trio.address, topic, partitions=1, count=count, seconds_max=self._seconds),
        )

    def _ping(self, trio: Trio) -> Figures:
        topic = self._topic(trio)
        return self._measured(
            trio, topic, lambda: generator.ping(trio.address, topic, size_bytes=1024, seconds=self._seconds)
        )

    def _pace(self, trio: Trio, rate: float) -> Figures:
        topic = self._topic(trio)
        figures = self._measured(
            trio,
            topic,
            lambda: generator.pace(
                trio.address, topic, partitions=1, size_bytes=1024, seconds=self._seconds, rate=rate
            ),
        )
        topics.delete(trio.address, topic)
        return {**figures, "asked_per_second": rate}

    def _topic(self, trio: Trio) -> str:
        self._number += 1
        topic = f"bench-{self._number}"
        topics.create(trio.address, topic, replicas=NODES)
        return topic

    def _measured(self, trio: Trio, topic: str, work: Callable[[], Run]) -> Figures:
        leader = trio.leader(topic)
        disk.wait_until_still(
            [directory for each in self._trios for directory in each.directories], seconds_max=STILL_SECONDS_MAX
        )
        before, machine_before = Work.of(trio, leader), process.machine_cpu_seconds()
        run = work()
        used = Work.of(trio, leader).since(before)
        everything = process.machine_cpu_seconds() - machine_before
        figures: Figures = {
            "messages": run.messages,
            "messages_per_second": run.messages_per_second,
            "megabytes_per_second": run.megabytes_per_second,
            "seconds": run.seconds,
            "client_cpu_seconds": run.cpu_seconds,
            "client_busiest_thread_seconds": run.busiest_thread_seconds,
            **used,
            "others_cpu_seconds": max(0.0, everything - used["broker_cpu_seconds"] - run.cpu_seconds),
        }
        if run.latencies_ns:
            figures |= latency_figures(run.latencies_ns)
        return figures


def _memory(trio: Trio) -> Figures:
    nodes = [process.memory(pid) for pid in trio.nodes.values()]
    figures = {
        "resident_mb": sum(each.resident_bytes for each in nodes) / 1e6,
        "proportional_mb": sum(each.proportional_bytes for each in nodes) / 1e6,
    }
    whole = process.memory(trio.beside).resident_bytes / 1e6 if trio.beside else figures["resident_mb"]
    return {**figures, "beside_mb": whole - figures["resident_mb"]}


def starts(names: list[str]) -> dict[str, Figures]:
    """Start time and memory of fresh clusters."""
    figures: dict[str, Figures] = {}
    for name in names:
        with TRIOS[name]() as trio:
            figures[name] = {"start_seconds": trio.start_seconds, **_memory(trio)}
    return figures


def rounds_of(names: list[str], *, rounds: int, seconds: float, fill_share: float) -> list[Round]:
    taken: list[Round] = []
    fresh = starts(names)
    with contextlib.ExitStack() as stack:
        trios = [stack.enter_context(TRIOS[name]()) for name in names]
        bench = Bench(trios, seconds=seconds, fill_share=fill_share)
        bench.prepare()
        for number in range(rounds):
            say(f"round {number + 1} of {rounds}")
            lines = bench.round(number)
            lines["disk"] = sync_probe(seconds / 3)
            lines["start"] = fresh
            taken.append(lines)
    return taken


def run(
    names: list[str], parts: list[str], *, rounds: int, seconds: float, fill_share: float, sizes: Sizes
) -> dict[str, object]:
    began = time.time()
    result: dict[str, object] = {
        "machine": machine.describe(),
        "taken": time.strftime("%Y-%m-%d", time.gmtime(began)),
        "settings": {"rounds": rounds, "seconds": seconds, "brokers": names},
    }
    if "rounds" in parts:
        result["rounds"] = rounds_of(names, rounds=rounds, seconds=seconds, fill_share=fill_share)
    if "many" in parts:
        say("many queues")
        with LonghallTrio() as cluster:
            result["many"] = many(cluster, sizes)
    compared = [name for name in names if name != "kafka-flush"]
    if "hot" in parts:
        shares: dict[str, dict[str, Figures]] = {}
        for name in compared:
            say(f"{name}: one hot queue beside another")
            with TRIOS[name]() as trio:
                shares[name] = hot(trio, sizes)
        result["hot"] = shares
    if "failover" in parts:
        say("the leader is killed")
        result["failover"] = {name: failover(TRIOS[name], sizes) for name in compared}
    result["bench_seconds"] = round(time.time() - began)
    return result


def main(arguments: list[str]) -> None:
    from bench import cluster_tables, report

    parser = argparse.ArgumentParser(prog="bench cluster", description=__doc__.split("\n")[0])
    parser.add_argument(
        "--quick", action="store_true", help="one short round, not published: a check that the bench works"
    )
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--seconds", type=float, default=SECONDS, help="length of one measurement")
    parser.add_argument("--only", default=DEFAULT_TRIOS, help=f"of {','.join(TRIOS)} (default: %(default)s)")
    parser.add_argument("--parts", default=",".join(PARTS), help="separated by commas (default: %(default)s)")
    parser.add_argument("--queues", type=int, help="for the part `many`")
    parser.add_argument(
        "--publish",
        action=argparse.BooleanOptionalAction,
        help="write docs/benchmarks.md; with some of the parts, these alone",
    )
    given = parser.parse_args(arguments)
    names = [name for name in given.only.split(",") if name in TRIOS]
    parts = given.parts.split(",")
    sizes = Sizes.quick() if given.quick else Sizes()
    if given.queues:
        sizes = replace(sizes, queues=given.queues)
    result = run(
        names,
        parts,
        rounds=1 if given.quick else given.rounds,
        seconds=min(given.seconds, 2.0) if given.quick else given.seconds,
        fill_share=0.2 if given.quick else 1.0,
        sizes=sizes,
    )
    _RESULTS.mkdir(exist_ok=True)
    kept = _RESULTS / f"cluster-{time.strftime('%Y%m%d-%H%M%S')}.json"
    kept.write_text(json.dumps(result, indent=1) + "\n")
    print(cluster_tables.tables(result))
    whole = not given.quick and {"longhall", "kafka"} <= set(names) and set(parts) == set(PARTS)
    if given.publish or (given.publish is None and whole):
        _keep(result)
        report.publish()


def _keep(result: dict[str, object]) -> None:
    """Publish these parts; the results of other parts stay as they were."""
    path = _RESULTS / "cluster.json"
    kept: dict[str, object] = json.loads(path.read_text()) if path.exists() else {}
    if "rounds" in kept and "rounds" not in result:
        result = {key: value for key, value in result.items() if key in PARTS}
    path.write_text(json.dumps({**kept, **result}, indent=1) + "\n")

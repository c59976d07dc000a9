"""One host and three hosts of a third of a core each: how much more do three take?

    python -m bench scale [--rounds N] [--seconds N] [--cores N]

On a machine with two cores, processes without a bound cannot show how work spreads over hosts. So each host, a node
with all its processes, is held to the same share of a core (`bench.measure.quota`), and the clients have the rest.

    one          a node alone
    three        three hosts, one copy of everything, spread over the hosts
    replicated   three hosts and three copies, spread
    one leader   three hosts and three copies, everything in one replication group

Kafka producers send to a topic with twelve partitions, in small batches, because large ones would make the clients the
bottleneck. SQS senders send to twelve queues, at every host, so that two of three requests are forwarded.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

from bench.kafka import say
from bench.load import generator, sqs, topics
from bench.measure.quota import Quota
from bench.peers.question import ask
from bench.peers.sqs import LonghallQueues
from bench.peers.trio import NODES, LonghallTrio

CORES: Final = 0.33
PARTITIONS: Final = 12
QUEUES: Final = 12
SIZE_BYTES: Final = 1024
CONNECTIONS: Final = 48
BATCH: Final = ("batch.num.messages=10", "queue.buffering.max.messages=20000")
CASES: Final = ("one", "three", "replicated", "one leader")
TARGETS: Final = (("three", "one", 2.4), ("replicated", "one leader", 1.8))
_RESULTS: Final = Path(__file__).with_name("results")


class Hosts(Protocol):
    """What is loaded: the addresses of all hosts."""

    @property
    def kafka(self) -> str: ...

    @property
    def sqs(self) -> list[str]: ...


class Lone(NamedTuple):
    """A node alone."""

    node: LonghallQueues

    @property
    def kafka(self) -> str:
        return self.node.kafka

    @property
    def sqs(self) -> list[str]:
        return [self.node.address]


class Three(NamedTuple):
    """A cluster of three hosts."""

    trio: LonghallTrio

    @property
    def kafka(self) -> str:
        return self.trio.address

    @property
    def sqs(self) -> list[str]:
        return [self.trio.door(node, "sqs") for node in sorted(self.trio.nodes)]


SETTINGS: Final[dict[str, dict[str, str]]] = {
    "three": {"default_placement": "spread", "replication_factor": "1"},
    "replicated": {"default_placement": "spread"},
    "one leader": {"default_placement": "hall"},
}


@contextlib.contextmanager
def hosts(case: str, cores: float) -> Iterator[Hosts]:
    """The hosts of a case, each held to its share."""
    count = 1 if case == "one" else NODES
    with contextlib.ExitStack() as stack:
        quotas = [stack.enter_context(Quota(str(number), cores)) for number in range(count)]
        if case == "one":
            node = stack.enter_context(LonghallQueues())
            quotas[0].hold(node.pid)
            yield Lone(node)
            return
        words = [word for name, value in SETTINGS[case].items() for word in ("--set", f"{name}={value}")]
        trio = stack.enter_context(LonghallTrio(arguments=words))
        for quota, pid in zip(quotas, trio.nodes.values(), strict=True):
            quota.hold(pid)
        yield Three(trio)


def kafka_rate(at: Hosts, name: str, seconds: float) -> float:
    """Messages a second of a producer to all partitions of a new topic."""
    topics.create(at.kafka, name, partitions=PARTITIONS, replicas=-1)
    produced = generator.produce(
        at.kafka, name, partitions=PARTITIONS, size_bytes=SIZE_BYTES, seconds=seconds, settings=BATCH
    )
    topics.delete(at.kafka, name)
    return produced.messages_per_second


def sqs_rate(at: Hosts, name: str, seconds: float) -> float:
    """Messages a second of senders at every host, to new queues in turn."""
    urls = [ask(at.sqs[0], "CreateQueue", QueueName=f"{name}-{number}")["QueueUrl"] for number in range(QUEUES)]
    each = CONNECTIONS // len(at.sqs)
    senders = [
        sqs.Process("send", door, _seen_from(urls, door), seconds=seconds, connections=each, size=SIZE_BYTES)
        for door in at.sqs
    ]
    rate = sum(sender.finish().messages_per_second for sender in senders)
    for url in urls:
        ask(at.sqs[0], "DeleteQueue", QueueUrl=url)
    return rate


def _seen_from(urls: list[str], door: str) -> list[str]:
    return [f"http://{door}/{url.split('/', 3)[3]}" for url in urls]


def run(rounds: int, seconds: float, cores: float) -> dict[str, Any]:
    """Measure all cases, in turns."""
    taken: dict[str, dict[str, list[float]]] = {"kafka": {}, "sqs": {}}
    for number in range(rounds):
        for case in CASES[number % 2 :] + CASES[: number % 2]:
            say(f"round {number + 1} of {rounds}: {case}")
            with hosts(case, cores) as at:
                kafka_rate(at, "warm", 1.0)
                taken["kafka"].setdefault(case, []).append(kafka_rate(at, "scale", seconds))
                taken["sqs"].setdefault(case, []).append(sqs_rate(at, "scale", seconds))
    return {"taken": time.strftime("%Y-%m-%d"), "cores": cores, "seconds": seconds, "rates": taken}


def show(result: dict[str, Any]) -> None:
    for door, rates in result["rates"].items():
        for case, figures in rates.items():
            low, high = min(figures), max(figures)
            print(f"{door}, {case}: {statistics.median(figures):,.0f} messages a second ({low:,.0f} to {high:,.0f})")
        for over, under, least in TARGETS:
            times = statistics.median(a / b for a, b in zip(rates[over], rates[under], strict=True))
            held = "reached" if times >= least else "missed"
            print(f"{door}: {over} takes {times:.2f} times what {under} takes (target {least}: {held})")


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="bench scale", description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=6.0, help="length of one measurement")
    parser.add_argument("--cores", type=float, default=CORES, help="of each host (default: %(default)s)")
    given = parser.parse_args(arguments)
    result = run(given.rounds, given.seconds, given.cores)
    _RESULTS.mkdir(exist_ok=True)
    (_RESULTS / f"scale-{time.strftime('%Y%m%d-%H%M%S')}.json").write_text(json.dumps(result, indent=1) + "\n")
    show(result)

"""What a cluster is measured for besides throughput: many queues, a hot one beside another, a leader that is killed."""

from __future__ import annotations

import array
import os
import statistics
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Timer

from bench.kafka import say
from bench.load import generator, sqs, topics
from bench.measure import process
from bench.measure.figures import latency_figures
from bench.peers.trio import NODES, LonghallTrio, Trio

_RECORD_BYTES = 1024
_SENDERS = 64  # Connections of the SQS client.
PRODUCERS = 4  # librdkafka loops over all its topics: a single producer would be busy with that.
HOT_CLIENTS = 4
STEADY_SHARE = 4  # The steady queue gets this fraction of the throughput of one queue alone.

Figures = dict[str, float]


@dataclass(frozen=True)
class Sizes:
    """The sizes of all parts; the quick ones only show that the bench works."""

    queues: int = 10_000
    many_seconds: float = 20.0
    hot_rounds: int = 3
    hot_seconds: float = 4.0
    failovers: int = 2
    failover_rate: float = 1000.0
    failover_seconds: float = 20.0
    failover_after_seconds: float = 3.0

    @staticmethod
    def quick() -> Sizes:
        return Sizes(queues=1000, many_seconds=5.0, hot_rounds=1, hot_seconds=2.0, failovers=1)


def many(trio: LonghallTrio, sizes: Sizes) -> dict[str, Figures]:
    """Send a message a second to each of many queues: by Kafka producers and by SQS senders."""
    leader = _any_leader(trio)
    door = trio.door(leader, "sqs")
    say(f"making {sizes.queues:,} queues")
    began = time.monotonic()
    sqs.run("create", door, ["many-"], count=sizes.queues, seconds=600, connections=_SENDERS)
    created_seconds = time.monotonic() - began
    weight = sum(process.memory(pid).resident_bytes for pid in trio.nodes.values())
    shown: dict[str, Figures] = {
        "made": {"queues": sizes.queues, "seconds": created_seconds, "resident_mb": weight / 1e6}
    }
    for name, send in (("kafka", _by_kafka), ("sqs", _by_sqs)):
        say(f"a message a second to each, by {name}")
        os.sync()
        before = {node: process.usage(pid) for node, pid in trio.nodes.items()}
        figures = send(trio, door, sizes)
        used = {node: process.usage(pid).since(before[node])[0] for node, pid in trio.nodes.items()}
        shown[name] = {
            **figures,
            "asked_per_second": float(sizes.queues),
            "leader_cores": used[leader] / figures["seconds"],
            "followers_cores": (sum(used.values()) - used[leader]) / figures["seconds"],
        }
    return shown


def _by_kafka(trio: LonghallTrio, door: str, sizes: Sizes) -> Figures:
    each = sizes.queues // PRODUCERS

    def produce(number: int) -> generator.Run:
        return generator.spread(
            trio.address,
            "many-",
            first=number * each,
            topics=each,
            size_bytes=_RECORD_BYTES,
            seconds=sizes.many_seconds,
            rate=float(each),
        )

    with ThreadPoolExecutor(PRODUCERS) as pool:
        runs = list(pool.map(produce, range(PRODUCERS)))
    seconds = max(run.seconds for run in runs)
    return {
        **latency_figures(sum((run.latencies_ns for run in runs), array.array("q"))),
        # Late messages are delivered after the window: their time counts.
        "messages_per_second": sum(run.messages / max(run.seconds, _last_answer_seconds(run, each)) for run in runs),
        "seconds": seconds,
        "client_cores": sum(run.cpu_seconds for run in runs) / seconds,
    }


def _last_answer_seconds(run: generator.Run, rate: int) -> float:
    """When the last message was answered: its due time plus its latency."""
    return run.messages / rate + (run.latencies_ns[-1] / 1e9 if run.latencies_ns else 0.0)


def _by_sqs(trio: LonghallTrio, door: str, sizes: Sizes) -> Figures:
    run = sqs.run(
        "send",
        door,
        [f"http://{door}/000000000000/many-"],
        spread=sizes.queues,
        rate=sizes.queues,
        size=_RECORD_BYTES,
        seconds=sizes.many_seconds,
        connections=_SENDERS,
    )
    return {
        **latency_figures(run.latencies_ns),
        "messages_per_second": run.messages_per_second,
        "seconds": run.seconds,
        "client_cores": run.cpu_seconds / run.seconds,
    }


def hot(trio: Trio, sizes: Sizes) -> dict[str, Figures]:
    """A queue with a steady rate, alone and beside one that several clients fill as fast as they can.

    The steady queue gets a quarter of the throughput of one queue alone, so that a fair share of the leader is enough
    for it. Alone and beside are measured in alternation.
    """
    for name in ("steady", "hot"):
        topics.create(trio.address, name, replicas=NODES)
    most = generator.produce(
        trio.address, "steady", partitions=1, size_bytes=_RECORD_BYTES, seconds=sizes.hot_seconds
    ).messages_per_second
    rate = most / STEADY_SHARE
    alone: list[Figures] = []
    beside: list[Figures] = []
    hot_rates: list[float] = []
    for number in range(sizes.hot_rounds):
        for with_hot in (False, True) if number % 2 == 0 else (True, False):
            os.sync()
            if not with_hot:
                alone.append(_steady(trio, rate, sizes))
                continue
            others = [
                generator.begin_produce(trio.address, "hot", size_bytes=_RECORD_BYTES, seconds=sizes.hot_seconds + 1.5)
                for _ in range(HOT_CLIENTS)
            ]
            time.sleep(0.7)  # Until all of them are running.
            beside.append(_steady(trio, rate, sizes))
            hot_rates.append(sum(each.finish().messages_per_second for each in others))
    taken = [1 - b["messages_per_second"] / a["messages_per_second"] for a, b in zip(alone, beside, strict=True)]
    return {
        "alone": _medians(alone),
        "beside": {
            **_medians(beside),
            "hot_per_second": statistics.median(hot_rates),
            "taken_share": statistics.median(taken),
        },
        "asked": {"messages_per_second": rate, "one_queue_per_second": most, "clients": HOT_CLIENTS},
    }


def _steady(trio: Trio, rate: float, sizes: Sizes) -> Figures:
    run = generator.pace(
        trio.address, "steady", partitions=1, size_bytes=_RECORD_BYTES, seconds=sizes.hot_seconds, rate=rate
    )
    # Messages that the client could not send in time count as taken away, and so does their time.
    late = run.latencies_ns[-1] / 1e9 if run.latencies_ns else 0.0
    return {
        **latency_figures(run.latencies_ns),
        "messages_per_second": run.messages / max(sizes.hot_seconds, run.seconds + late),
    }


def failover(peer: Callable[[], Trio], sizes: Sizes) -> Figures:
    """A producer with a steady rate whose leader is killed: the longest time that a message waited."""
    gaps: list[float] = []
    for _ in range(sizes.failovers):
        with peer() as trio:
            topics.create(trio.address, "failover", replicas=NODES)
            timer = Timer(sizes.failover_after_seconds, trio.kill, (trio.leader("failover"),))
            timer.start()
            run = generator.pace(
                trio.address,
                "failover",
                partitions=1,
                size_bytes=_RECORD_BYTES,
                seconds=sizes.failover_seconds,
                rate=sizes.failover_rate,
            )
            timer.join()
            gaps.append(max(run.latencies_ns) / 1e9)
            say(f"{trio.name}: answered again after {gaps[-1]:.2f} s")
    return {"gap_seconds": statistics.median(gaps), "gap_seconds_max": max(gaps), "times": float(len(gaps))}


def _any_leader(trio: Trio) -> int:
    topics.create(trio.address, "first", replicas=NODES)
    return trio.leader("first")


def _medians(rounds: list[Figures]) -> Figures:
    return {key: statistics.median(each[key] for each in rounds) for key in rounds[0]}

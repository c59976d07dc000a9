"""Longhall's AMQP door beside RabbitMQ, classic and quorum queues, under the same client, and beside NATS and Redis.

All servers run at once and one is loaded at a time. A round takes every line on each peer in turn, and each round
begins with another peer, so that other load on the machine affects all alike. A publish line fills durable queues with
persistent, confirmed messages, and the consume line behind it empties them with acknowledgements. The end-to-end line
does both at once, at half of the rate at which the peer could publish and consume in turn. NATS JetStream and Redis
streams, which have no AMQP, are loaded by another client and take the publish and consume lines; so do Longhall and
RabbitMQ by STOMP. Routing through a topic exchange, idle connections and the way through a node that does not lead are
measured once, on Longhall.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import resource
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench import machine
from bench.kafka import say, sync_probe
from bench.load import amqp
from bench.load.dialects import AmqpQueues, Dialect, StompDestinations
from bench.measure import process
from bench.measure.figures import latency_figures
from bench.peers import rabbitmq, redis
from bench.peers.amqp import PEERS, SERVERS, LonghallExchanges, Peer
from bench.peers.nats import VERSION as NATS_VERSION
from bench.peers.node import Node
from bench.peers.rabbitmq import RabbitMq
from bench.peers.trio import LonghallTrio

ROUNDS = 3
SECONDS = 2.0
WARM_SECONDS = 2.0
SIZES = {"100b": 100, "1k": 1024}
QUEUES = (1, 10)
COPIES = 10
ROUTES = (10, 1000)
SPEAKING_STOMP = ("longhall", "rabbitmq-classic")
IDLE_CONNECTIONS = 10_000
DESCRIPTORS = 40_000  # Open files, for so many connections.
WINDOW = 1000  # Unconfirmed messages, and the prefetch.
ACK_EVERY = 100
_DRAIN_SECONDS_MAX = 60.0
_RESULTS = Path(__file__).with_name("results")

Figures = dict[str, float]
Lines = dict[str, dict[str, Figures]]


class Bench:
    """One run: the servers that are up, and the load on them."""

    def __init__(self, servers: dict[str, Node], peers: dict[str, Peer], seconds: float) -> None:
        self._servers = servers
        self._peers = peers
        self._seconds = seconds
        self._number = 0

    def warm(self, seconds: float) -> None:
        """Load every peer before the measurement: a server that has been up has warm compilers and caches."""
        for name in self._peers:
            say(f"warming {name}")
            self._cycle(name, 1024, 1, seconds)

    def round(self, number: int) -> Lines:
        """Every line on every peer; the peer that begins changes with the number."""
        names = list(self._peers)
        shift = number % len(names)
        lines: Lines = {}
        for name in names[shift:] + names[:shift]:
            peer = self._peers[name]
            for label, size in SIZES.items():
                for count in QUEUES:
                    for verb, figures in self._cycle(name, size, count, self._seconds).items():
                        lines.setdefault(f"{verb}_{label}_{count}", {})[name] = figures
                if not isinstance(peer.dialect, AmqpQueues):
                    continue
                rates = [lines[f"{verb}_{label}_1"][name]["messages_per_second"] for verb in ("publish", "consume")]
                half = 0.5 / sum(1 / each for each in rates)
                lines.setdefault(f"half_{label}", {})[name] = self._end_to_end(name, size, half)
            if isinstance(peer.dialect, AmqpQueues):
                lines.setdefault("fanout_100b", {})[name] = self._fanout(name, peer.dialect)
            if name in SPEAKING_STOMP:
                for label, size in SIZES.items():
                    for verb, figures in self._stomp_cycle(name, size).items():
                        lines.setdefault(f"stomp_{verb}_{label}", {})[name] = figures
            weight = process.memory(self._servers[peer.server].pid)
            lines.setdefault("memory", {})[name] = {"resident_mb": weight.resident_bytes / 1e6}
        for label, size in SIZES.items():  # The same rate for all: half of what the slowest peer can take.
            rate = min(each["rate"] for each in lines[f"half_{label}"].values())
            for name in lines[f"half_{label}"]:
                lines.setdefault(f"same_{label}", {})[name] = self._end_to_end(name, size, rate)
        return lines

    def _cycle(self, name: str, size: int, count: int, seconds: float) -> dict[str, Figures]:
        """Fill so many queues, and empty them."""
        return self._filled_and_emptied(name, self._peers[name].dialect, self._address(name), size, count, seconds)

    def _stomp_cycle(self, name: str, size: int) -> dict[str, Figures]:
        """The same with one queue, by STOMP."""
        server = self._servers[self._peers[name].server]
        assert isinstance(server, LonghallExchanges | RabbitMq)
        dialect = StompDestinations(server.address)
        return self._filled_and_emptied(name, dialect, server.stomp_address, size, 1, self._seconds)

    def _filled_and_emptied(
        self, name: str, dialect: Dialect, address: str, size: int, count: int, seconds: float
    ) -> dict[str, Figures]:
        queues, pid = self._names(count), self._servers[self._peers[name].server].pid
        options: dict[str, Any] = {"size": size, "window": WINDOW, "ack": ACK_EVERY}
        dialect.create(address, queues)
        published = measured(pid, "publish", address, queues, dialect.run, seconds=seconds, **options)
        dialect.begin_consuming(address, queues, WINDOW)
        whole = int(published["messages"])
        options |= {"seconds": _DRAIN_SECONDS_MAX, "count": whole}
        consumed = measured(pid, "consume", address, queues, dialect.run, **options)
        assert consumed["messages"] >= whole, f"{name} delivered {consumed['messages']} of {whole} messages"
        dialect.delete(address, queues)
        return {"publish": published, "consume": consumed}

    def _end_to_end(self, name: str, size: int, rate: float) -> Figures:
        queues, dialect = self._names(1), self._peers[name].dialect
        dialect.create(self._address(name), queues)
        options: dict[str, Any] = {"size": size, "window": WINDOW, "prefetch": WINDOW, "ack": 10}
        figures = self._measured(name, "both", queues, seconds=self._seconds, rate=rate, **options)
        dialect.delete(self._address(name), queues)
        return {**figures, "rate": rate}

    def _fanout(self, name: str, dialect: AmqpQueues) -> Figures:
        queues, address = self._names(COPIES), self._address(name)
        exchange = f"fanout-{self._number}"
        amqp.declare(address, queues, kind=dialect.queue_type, exchange=exchange, routing="fanout")
        figures = self._measured(name, "publish", ["key"], seconds=self._seconds, window=WINDOW, exchange=exchange)
        amqp.delete(address, queues, exchange=exchange)
        return figures

    def _names(self, count: int) -> list[str]:
        self._number += 1
        return [f"bench-{self._number}-{at}" for at in range(count)]

    def _address(self, name: str) -> str:
        return self._servers[self._peers[name].server].address

    def _measured(self, name: str, mode: str, names: list[str], **options: Any) -> Figures:
        return measured(self._servers[self._peers[name].server].pid, mode, self._address(name), names, **options)


def measured(
    pid: int, mode: str, address: str, names: list[str], load: Callable[..., amqp.Run] = amqp.run, **options: Any
) -> Figures:
    """One run of the client against the server whose process is `pid`."""
    os.sync()
    before, machine_before = process.usage(pid), process.machine_cpu_seconds()
    run = load(mode, address, names, **options)
    broker_cpu, broker_busiest = process.usage(pid).since(before)
    everything = process.machine_cpu_seconds() - machine_before
    assert run.messages > 0, f"no message passed in {mode}"
    return {
        "messages": run.messages,
        "messages_per_second": run.messages_per_second,
        "seconds": run.seconds,
        "client_cpu_seconds": run.cpu_seconds,
        "client_busiest_thread_seconds": run.cpu_seconds,
        "broker_cpu_seconds": broker_cpu,
        "broker_busiest_thread_seconds": broker_busiest,
        # CPU time of other processes; a run with much of it says little.
        "others_cpu_seconds": max(0.0, everything - broker_cpu - run.cpu_seconds),
        **(latency_figures(run.latencies_ns) if run.latencies_ns else {}),
    }


def routing(seconds: float, rounds: int) -> Lines:
    """Publishing through a topic exchange with few and with many bound queues; every message goes to one of them.

    `spread` publishes to all queues in turn, `same` to the same ten of them, however many are bound.
    """
    lines: Lines = {}
    with LonghallExchanges() as node:
        bound: dict[int, list[str]] = {}
        for count in ROUTES:
            say(f"{count} queues bound to a topic exchange")
            bound[count] = [f"routed-{count}-{at}" for at in range(count)]
            amqp.declare(node.address, bound[count], kind="classic", exchange=f"topics-{count}", routing="topic")
        for number in range(rounds):
            for count, queues in bound.items():
                for label, some in (("same", queues[:10]), ("spread", queues)):
                    keys = [f"{queue}.key" for queue in some]
                    figures = measured(
                        node.pid, "publish", node.address, keys, seconds=seconds, exchange=f"topics-{count}"
                    )
                    lines.setdefault(f"{label}_{count}", {})[str(number)] = figures
    return lines


def idle(count: int) -> Figures:
    """The memory of a node with so many open connections, each with a channel. Fewer, if the limit of open files does
    not allow as many: a node uses a third of it for connections.
    """
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        most = max(most, DESCRIPTORS)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    count = min(count, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 3 - 100)
    say(f"{count} idle connections")
    with LonghallExchanges() as node:
        before = process.memory(node.pid).resident_bytes
        with amqp.idle_connections(node.address, count):
            weight = process.memory(node.pid).resident_bytes
    return {"connections": count, "resident_mb": weight / 1e6, "before_mb": before / 1e6}


def through_follower(seconds: float, rounds: int) -> Lines:
    """Publishing and consuming in a cluster of three nodes: at the node that leads the queue, and at another."""
    lines: Lines = {}
    options: dict[str, Any] = {"size": SIZES["1k"], "window": WINDOW, "prefetch": WINDOW, "ack": ACK_EVERY}
    with LonghallTrio() as trio:
        say("a cluster of three nodes")
        for number in range(rounds):
            for label in ("leader", "follower"):
                queue = f"through-{label}-{number}"
                amqp.declare(trio.door(min(trio.nodes), "amqp"), [queue], kind="classic")
                leader = trio.leader(queue)
                node = leader if label == "leader" else next(each for each in sorted(trio.nodes) if each != leader)
                pid, address = trio.beside, trio.door(node, "amqp")
                published = measured(pid, "publish", address, [queue], seconds=seconds, **options)
                whole = int(published["messages"])
                consumed = measured(
                    pid, "consume", address, [queue], seconds=_DRAIN_SECONDS_MAX, count=whole, **options
                )
                lines.setdefault(f"publish_{label}", {})[str(number)] = published
                lines.setdefault(f"consume_{label}", {})[str(number)] = consumed
    return lines


def run(names: list[str], *, rounds: int, seconds: float, warm_seconds: float, connections: int) -> dict[str, object]:
    began = time.time()
    result: dict[str, object] = {
        "machine": {
            **machine.describe(),
            "rabbitmq": rabbitmq.version(),
            "nats": NATS_VERSION,
            "redis": redis.version(),
        },
        "taken": time.strftime("%Y-%m-%d", time.gmtime(began)),
        "settings": {"rounds": rounds, "seconds": seconds, "window": WINDOW, "ack_every": ACK_EVERY, "brokers": names},
    }
    peers = {name: PEERS[name] for name in names}
    with contextlib.ExitStack() as stack:
        started = {peer.server: SERVERS[peer.server] for peer in peers.values()}
        servers = {server: stack.enter_context(make()) for server, make in started.items()}
        bench = Bench(servers, peers, seconds)
        bench.warm(warm_seconds)
        taken: list[Lines] = []
        for number in range(rounds):
            say(f"round {number + 1} of {rounds}")
            lines = bench.round(number)
            lines["disk"] = sync_probe(seconds / 3)
            taken.append(lines)
        result["rounds"] = taken
    result["routing"] = routing(seconds, rounds)
    result["idle"] = idle(connections)
    result["follower"] = through_follower(seconds, rounds)
    result["bench_seconds"] = round(time.time() - began)
    return result


def main(arguments: list[str]) -> None:
    from bench import amqp_tables, report

    parser = argparse.ArgumentParser(prog="bench amqp", description=__doc__.split("\n")[0])
    parser.add_argument(
        "--quick", action="store_true", help="one short round, not published: a check that the bench works"
    )
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--seconds", type=float, default=SECONDS, help="length of one measurement")
    parser.add_argument("--only", default=",".join(PEERS), help="peers, separated by commas (default: %(default)s)")
    parser.add_argument("--publish", action=argparse.BooleanOptionalAction, help="write docs/benchmarks.md (full runs)")
    given = parser.parse_args(arguments)
    names = [name for name in given.only.split(",") if name in PEERS]
    whole = not given.quick and len(names) == len(PEERS)
    result = run(
        names,
        rounds=1 if given.quick else given.rounds,
        seconds=min(given.seconds, 1.0) if given.quick else given.seconds,
        warm_seconds=0.5 if given.quick else WARM_SECONDS,
        connections=IDLE_CONNECTIONS,
    )
    _RESULTS.mkdir(exist_ok=True)
    kept = _RESULTS / f"amqp-{time.strftime('%Y%m%d-%H%M%S')}.json"
    kept.write_text(json.dumps(result, indent=1) + "\n")
    print(amqp_tables.tables(result))
    if given.publish or (given.publish is None and whole):
        (_RESULTS / "amqp.json").write_text(kept.read_text())
        report.publish()

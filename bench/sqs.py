"""Longhall's SQS door beside ElasticMQ, moto and a bare HTTP loop, under the same client.

All servers run at once and one is loaded at a time. A round takes every line on each of them in turn, and each round
begins with another server, so that other load on the machine affects all alike. The send line fills a queue, the
receive line leases its messages and the delete line empties it; then the same three run at half of the rate just
reached. At least two thousand messages wait in the queue when receiving begins, however slow the server: it must not
have a much shorter queue than a fast one, whose own sends are ten times as many. (moto scans the whole queue for each
receive and each delete, and filling it takes most of the run.)
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import tempfile
import time
from pathlib import Path
from typing import Any

from bench import machine
from bench.kafka import say, sync_probe
from bench.load import sqs
from bench.measure import process
from bench.measure.figures import latency_figures
from bench.peers import elasticmq, moto
from bench.peers.node import Node
from bench.peers.question import ask
from bench.peers.sqs import PEERS

ROUNDS = 3
SECONDS = 2.0
CONNECTIONS = 32
SIZE_BYTES = 1024
WARM_SECONDS = 6.0
BATCHES = {"single": 1, "ten": 10}
# A standard queue holds at most 120,000 messages in flight, on every server with SQS's limits.
_LEASED_MAX = 100_000
_WAITING_MIN = 2_000
_FILL_SECONDS_MAX = 120.0
_VISIBILITY_SECONDS = 3600
_RESULTS = Path(__file__).with_name("results")

Figures = dict[str, float]
Round = dict[str, dict[str, Figures]]


class Bench:
    """One run: the servers that are up, and the load on them."""

    def __init__(self, servers: list[Node], scratch: Path, *, seconds: float, connections: int) -> None:
        self._servers = servers
        self._handles = scratch / "handles"
        self._seconds = seconds
        self._connections = connections
        self._number = 0

    def warm(self, seconds: float) -> None:
        """Run all lines on every server before the measurement: a server that has been up has warm compilers and
        caches.
        """
        for server in self._servers:
            say(f"warming {server.name}")
            for batch in BATCHES.values():
                self._cycle(server, batch, seconds / 2)

    def round(self, number: int) -> Round:
        """Every line on every server; the server that begins changes with the number."""
        shift = number % len(self._servers)
        lines: Round = {}
        for server in self._servers[shift:] + self._servers[:shift]:
            for label, batch in BATCHES.items():
                fast = self._cycle(server, batch, self._seconds)
                half = {line: figures["requests_per_second"] / 2 for line, figures in fast.items()}
                paced = self._cycle(server, batch, self._seconds, half)
                for line in fast:
                    lines.setdefault(f"{line}_{label}", {})[server.name] = fast[line]
                    lines.setdefault(f"{line}_{label}_half", {})[server.name] = paced[line]
            weight = process.memory(server.pid)
            lines.setdefault("memory", {})[server.name] = {"resident_mb": weight.resident_bytes / 1e6}
        return lines

    def _cycle(
        self, server: Node, batch: int, seconds: float, rates: dict[str, float] | None = None
    ) -> dict[str, Figures]:
        self._number += 1
        settings = {"VisibilityTimeout": str(_VISIBILITY_SECONDS)}
        url = ask(server.address, "CreateQueue", QueueName=f"bench-{self._number}", Attributes=settings)["QueueUrl"]
        taken: dict[str, Figures] = {}
        for line in ("send", "receive", "delete"):
            options: dict[str, Any] = {"rate": rates[line]} if rates else {}
            if line == "receive":
                options["count"] = _LEASED_MAX
            if line != "send":
                options["handles"] = self._handles
                self._fill(server, url, int(_WAITING_MIN - taken["send"]["messages"]) if line == "receive" else 0)
            taken[line] = self._measured(server, line, url, batch, seconds, options)
        ask(server.address, "DeleteQueue", QueueUrl=url)
        return taken

    def _fill(self, server: Node, url: str, missing: int) -> None:
        if missing > 0 and server.name != "bare":
            options = {"batch": 10, "size": SIZE_BYTES, "seconds": _FILL_SECONDS_MAX, "connections": self._connections}
            sqs.run("send", server.address, [url], count=missing, **options)

    def _measured(
        self, server: Node, line: str, url: str, batch: int, seconds: float, options: dict[str, Any]
    ) -> Figures:
        os.sync()
        before, machine_before = process.usage(server.pid), process.machine_cpu_seconds()
        run = sqs.run(
            line,
            server.address,
            [url],
            batch=batch,
            size=SIZE_BYTES,
            seconds=seconds,
            connections=self._connections,
            **options,
        )
        server_cpu, server_busiest = process.usage(server.pid).since(before)
        everything = process.machine_cpu_seconds() - machine_before
        assert run.requests > 0, f"{server.name} answered nothing to {line}"
        return {
            "requests": run.requests,
            "messages": run.messages,
            "requests_per_second": run.requests_per_second,
            "messages_per_second": run.messages_per_second,
            "seconds": run.seconds,
            "client_cpu_seconds": run.cpu_seconds,
            "client_busiest_thread_seconds": run.cpu_seconds,
            "broker_cpu_seconds": server_cpu,
            "broker_busiest_thread_seconds": server_busiest,
            # CPU time of other processes; a run with much of it says little.
            "others_cpu_seconds": max(0.0, everything - server_cpu - run.cpu_seconds),
            **latency_figures(run.latencies_ns),
        }


def run(names: list[str], *, rounds: int, seconds: float, connections: int, warm_seconds: float) -> dict[str, object]:
    began = time.time()
    result: dict[str, object] = {
        "machine": {**machine.describe(), "elasticmq": elasticmq.VERSION, "moto": moto.VERSION},
        "taken": time.strftime("%Y-%m-%d", time.gmtime(began)),
        "settings": {
            "rounds": rounds,
            "seconds": seconds,
            "connections": connections,
            "size_bytes": SIZE_BYTES,
            "brokers": names,
        },
    }
    with contextlib.ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-sqs-")))
        servers = [stack.enter_context(PEERS[name]()) for name in names]
        bench = Bench(servers, scratch, seconds=seconds, connections=connections)
        bench.warm(warm_seconds)
        taken: list[Round] = []
        for number in range(rounds):
            say(f"round {number + 1} of {rounds}")
            lines = bench.round(number)
            lines["disk"] = sync_probe(seconds / 3)
            taken.append(lines)
        result["rounds"] = taken
    result["bench_seconds"] = round(time.time() - began)
    return result


def main(arguments: list[str]) -> None:
    from bench import report, sqs_tables

    parser = argparse.ArgumentParser(prog="bench sqs", description=__doc__.split("\n")[0])
    parser.add_argument(
        "--quick", action="store_true", help="one short round, not published: a check that the bench works"
    )
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--seconds", type=float, default=SECONDS, help="length of one measurement")
    parser.add_argument("--connections", type=int, default=CONNECTIONS, help="one request in flight on each")
    parser.add_argument("--only", default=",".join(PEERS), help="servers, separated by commas (default: %(default)s)")
    parser.add_argument("--publish", action=argparse.BooleanOptionalAction, help="write docs/benchmarks.md (full runs)")
    given = parser.parse_args(arguments)
    names = [name for name in given.only.split(",") if name in PEERS]
    whole = not given.quick and len(names) == len(PEERS)
    result = run(
        names,
        rounds=1 if given.quick else given.rounds,
        seconds=min(given.seconds, 1.0) if given.quick else given.seconds,
        connections=given.connections,
        warm_seconds=1.0 if given.quick else WARM_SECONDS,
    )
    _RESULTS.mkdir(exist_ok=True)
    kept = _RESULTS / f"sqs-{time.strftime('%Y%m%d-%H%M%S')}.json"
    kept.write_text(json.dumps(result, indent=1) + "\n")
    print(sqs_tables.tables(result))
    if given.publish or (given.publish is None and whole):
        (_RESULTS / "sqs.json").write_text(kept.read_text())
        report.publish()

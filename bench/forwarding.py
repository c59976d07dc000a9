"""The SQS door at a node that does not lead, and at workers, beside the node that leads.

    python -m bench forwarding [--rounds N] [--seconds N]

    leader      the node of a cluster of three that leads the queue
    follower    another node of it, which forwards every request
    lone        a node of one process
    workers     a node of two workers, of which one owns the queue and the other forwards: half of the connections each

A round takes send, receive and delete, single and in batches of ten, in each of these places in turn. The ratios are
medians of those within a round.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any, Final

from bench.kafka import say
from bench.load import sqs
from bench.peers.question import ask
from bench.peers.sqs import LonghallQueues
from bench.peers.trio import LonghallTrio

LINES: Final = ("send", "receive", "delete")
BATCHES: Final = {"single": 1, "batches of ten": 10}
SIZE_BYTES: Final = 1024
CONNECTIONS: Final = 32
LEASED_MAX: Final = 100_000
PAIRS: Final = (("follower", "leader"), ("workers", "lone"))
LEAST: Final = 0.6
_RESULTS: Final = Path(__file__).with_name("results")

Rates = dict[str, dict[str, list[float]]]  # By line and place.


class Places:
    """The servers, and the queue of a round at each of their doors."""

    def __init__(self, trio: LonghallTrio, lone: LonghallQueues, workers: LonghallQueues) -> None:
        self._trio = trio
        self._doors = {"lone": lone.address, "workers": workers.address}

    def of(self, name: str) -> dict[str, tuple[str, str]]:
        """Create a queue for each place: its door and its URL there."""
        found = {place: (door, create(door, name)) for place, door in self._doors.items()}
        first = self._trio.door(min(self._trio.nodes), "sqs")
        for place in ("leader", "follower"):
            queue = f"{name}-{place}"
            path = create(first, queue).split("/", 3)[3]
            leader = self._trio.leader(queue)
            node = leader if place == "leader" else next(one for one in sorted(self._trio.nodes) if one != leader)
            door = self._trio.door(node, "sqs")
            found[place] = (door, f"http://{door}/{path}")
        return found


def create(door: str, name: str) -> str:
    attributes = {"VisibilityTimeout": "3600"}
    return str(ask(door, "CreateQueue", QueueName=name, Attributes=attributes)["QueueUrl"])


def measure(places: Places, number: int, seconds: float, handles: Path, rates: Rates) -> None:
    """One round: every line in every place; the place that begins changes with the number."""
    for label, batch in BATCHES.items():
        queues = places.of(f"forwarding-{number}-{batch}")
        names = sorted(queues)
        for place in names[number % len(names) :] + names[: number % len(names)]:
            door, url = queues[place]
            for line in LINES:
                options: dict[str, Any] = {"batch": batch, "size": SIZE_BYTES, "connections": CONNECTIONS}
                if line == "receive":
                    options["count"] = LEASED_MAX
                if line != "send":
                    options["handles"] = handles
                done = sqs.run(line, door, [url], seconds=seconds, **options)
                rates.setdefault(f"{line}, {label}", {}).setdefault(place, []).append(done.requests_per_second)
            ask(door, "DeleteQueue", QueueUrl=url)


def run(rounds: int, seconds: float) -> dict[str, Any]:
    """Measure all rounds."""
    rates: Rates = {}
    with contextlib.ExitStack() as stack:
        handles = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-forwarding-"))) / "handles"
        trio = stack.enter_context(LonghallTrio(arguments=["--set", "default_placement=hall"]))
        lone = stack.enter_context(LonghallQueues())
        workers = stack.enter_context(LonghallQueues(arguments=["--workers", "2"]))
        places = Places(trio, lone, workers)
        say("warming")
        measure(places, 0, 1.0, handles, {})
        for number in range(1, rounds + 1):
            say(f"round {number} of {rounds}")
            measure(places, number, seconds, handles, rates)
    return {"taken": time.strftime("%Y-%m-%d"), "seconds": seconds, "rates": rates}


def show(result: dict[str, Any]) -> None:
    """A line for each of the measured lines, with what is forwarded as a share of what is not."""
    for line, by_place in result["rates"].items():
        words = [f"{place} {statistics.median(rates):,.0f}" for place, rates in sorted(by_place.items())]
        print(f"{line}, requests a second: {', '.join(words)}")
        for over, under in PAIRS:
            share = statistics.median(a / b for a, b in zip(by_place[over], by_place[under], strict=True))
            print(f"  {over} at {share:.2f} of {under} (target {LEAST}: {'reached' if share >= LEAST else 'missed'})")


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="bench forwarding", description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2.0, help="length of one measurement")
    given = parser.parse_args(arguments)
    result = run(given.rounds, given.seconds)
    _RESULTS.mkdir(exist_ok=True)
    (_RESULTS / f"forwarding-{time.strftime('%Y%m%d-%H%M%S')}.json").write_text(json.dumps(result, indent=1) + "\n")
    show(result)

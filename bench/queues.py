"""Queues that grow: many waiting messages, many groups, many queues, and many messages due at one time.

Only Longhall is measured, since each line is a target of its own and not a comparison. Queues are filled through the
Kafka door where it is quicker, because a queue is a topic of the same name; all else goes through the SQS door.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from bench import machine
from bench.kafka import say
from bench.load import sqs
from bench.measure import process
from bench.measure.figures import percentile
from bench.peers.question import tell
from bench.peers.sqs import LonghallQueues
from bench.queues_lasting import months
from bench.queues_steps import (
    BODY_BYTES,
    CONNECTIONS,
    QUICK,
    Figures,
    Sizes,
    create,
    depth_of,
    fill_by_door,
    fill_groups,
    fill_plain,
    resident,
    restart,
    settled_bytes,
)
from bench.straggler import straggler

_RESULTS = Path(__file__).with_name("results")
_LEASED_MAX = 100_000  # A standard queue allows 120,000 in flight.
_EARLY_MS_MAX = 1000


def waiting(sizes: Sizes) -> Figures:
    """A plain queue with very many messages beside one with few."""
    return _depth(sizes, lambda node: fill_plain(node, "deep", sizes.waiting), {})


def waiting_to_live(sizes: Sizes) -> Figures:
    """The same with a time-to-live on each message, which the queue sets."""

    def fill(node: LonghallQueues) -> int:
        for name in ("shallow", "deep"):
            tell(node.http, "PATCH", f"queues/{name}", {"settings": {"time_to_live_ms": 86_400_000}})
        return fill_by_door(node, "deep", sizes.waiting)

    return _depth(sizes, fill, {})


def waiting_groups(sizes: Sizes) -> Figures:
    """A FIFO queue with one message in each of very many groups."""
    return _depth(sizes, lambda node: fill_groups(node, sizes.groups), {"FifoQueue": "true"}, suffix=".fifo")


def _depth(
    sizes: Sizes, fill: Callable[[LonghallQueues], int], attributes: dict[str, str], suffix: str = ""
) -> Figures:
    attributes = {"VisibilityTimeout": "3600", **attributes}
    with LonghallQueues() as node:
        shallow = create(node, f"shallow{suffix}", attributes)
        deep = create(node, f"deep{suffix}", attributes)
        empty_bytes = settled_bytes(node, shallow, fifo=bool(suffix))
        began = time.monotonic()
        filled = fill(node)
        fill_seconds = time.monotonic() - began
        full_bytes = resident(node)
        depth = depth_of(node, deep)
        rates = _receive_rates(node, shallow, deep, sizes, fifo=bool(suffix))
        node.stop()
        clean_seconds = restart(node, f"deep{suffix}")
        restarted_bytes = resident(node)
        node.kill()
        killed_seconds = restart(node, f"deep{suffix}")
    return {
        "messages": filled,
        "told_depth": depth,
        "fill_per_second": filled / fill_seconds,
        "empty_mb": empty_bytes / 1e6,
        "full_mb": full_bytes / 1e6,
        "restarted_mb": restarted_bytes / 1e6,
        "shallow_receive_per_second": rates["shallow"],
        "deep_receive_per_second": rates["deep"],
        "deep_to_shallow": rates["deep"] / rates["shallow"],
        "restart_clean_seconds": clean_seconds,
        "restart_killed_seconds": killed_seconds,
    }


def _receive_rates(node: LonghallQueues, shallow: str, deep: str, sizes: Sizes, *, fifo: bool) -> dict[str, float]:
    """Messages a second, received and settled in batches of ten.

    A thousand of the deep queue alternate with a thousand that are all the shallow one has; refilling it is not timed.
    """
    groups = {"groups": sizes.few} if fifo else {}
    seconds = {"shallow": 0.0, "deep": 0.0}
    messages = {"shallow": 0, "deep": 0}
    for number in range(sizes.repeats + 1):
        for name, url in (("shallow", shallow), ("deep", deep))[:: 1 if number % 2 == 0 else -1]:
            if name == "shallow":
                sqs.run("send", node.address, [url], batch=10, size=BODY_BYTES, count=sizes.few, seconds=60, **groups)
            run = sqs.run(
                "drain",
                node.address,
                [url],
                batch=10,
                count=sizes.few,
                seconds=60,
                connections=CONNECTIONS,
                wait=1,
            )
            assert run.messages >= sizes.few, f"{run.messages} came out of the {name} queue"
            if number > 0:  # The first round only warms the node.
                seconds[name] += run.seconds
                messages[name] += run.messages
    return {name: messages[name] / seconds[name] for name in messages}


def idle_queues(sizes: Sizes) -> Figures:
    """Memory of very many queues with one message each and no traffic, and the rate of their creation."""
    with LonghallQueues() as node:
        fresh = resident(node)
        made = sqs.run("create", node.address, ["idle-"], count=sizes.idle_queues, seconds=300)
        assert made.requests == sizes.idle_queues, f"{made.requests} of {sizes.idle_queues} queues were made"
        full = resident(node)
        node.stop()
        clean_seconds = restart(node, f"idle-{sizes.idle_queues - 1}")
        return {
            "queues": sizes.idle_queues,
            "created_per_second": made.requests_per_second,
            "fresh_mb": fresh / 1e6,
            "resident_mb": full / 1e6,
            "restarted_mb": resident(node) / 1e6,
            "restart_clean_seconds": clean_seconds,
        }


def delayed(sizes: Sizes) -> Figures:
    """Messages sent at a steady rate with one delay, so that they fall due at that rate; how late each arrived."""
    with LonghallQueues() as node:
        url = create(node, "delayed", {})
        # All are stored before the first is due, and the last are still to be sent when receivers start.
        delay_seconds = sizes.timed_seconds + 10
        sender = sqs.Process(
            "send",
            node.address,
            [url],
            batch=10,
            size=BODY_BYTES,
            count=sizes.timed,
            rate=sizes.timed / 10 / sizes.timed_seconds,
            seconds=sizes.timed_seconds * 2,
            delay=delay_seconds,
            connections=CONNECTIONS,
        )
        sent = sender.finish()
        before = process.usage(node.pid)
        run = _drain_timed(node, [url], sizes, due="sent", after_ms=delay_seconds * 1000)
        cpu_seconds = process.usage(node.pid).since(before)[0]
        return {"messages": sent.messages, "cpu_seconds": cpu_seconds, **_lateness(run)}


def leases(sizes: Sizes) -> Figures:
    """Messages leased at a steady rate and never settled, so that the leases end at that rate; how late each came back.

    Several queues, since SQS allows 120,000 in flight in one.
    """
    count = max(1, -(-sizes.timed // _LEASED_MAX))
    lease_seconds = sizes.timed_seconds + 15
    with LonghallQueues() as node, tempfile.TemporaryDirectory(prefix="bench-leases-") as scratch:
        urls = [create(node, f"leased-{number}", {}) for number in range(count)]
        for number in range(count):
            # One message is sent before those that are counted.
            fill_plain(node, f"leased-{number}", sizes.timed // count - 1)
        taken = sqs.run(
            "receive",
            node.address,
            urls,
            batch=10,
            count=sizes.timed,
            rate=sizes.timed / 10 / sizes.timed_seconds,
            seconds=sizes.timed_seconds * 2,
            visibility=lease_seconds,
            connections=max(count, CONNECTIONS - CONNECTIONS % count),
            handles=Path(scratch, "handles"),
        )
        before = process.usage(node.pid)
        run = _drain_timed(node, urls, sizes, due="first", after_ms=lease_seconds * 1000)
        cpu_seconds = process.usage(node.pid).since(before)[0]
        return {"messages": taken.messages, "cpu_seconds": cpu_seconds, **_lateness(run)}


def _drain_timed(node: LonghallQueues, urls: list[str], sizes: Sizes, *, due: str, after_ms: int) -> sqs.Run:
    return sqs.run(
        "drain",
        node.address,
        urls,
        batch=10,
        wait=20,
        count=sizes.timed,
        seconds=sizes.timed_seconds * 3 + 60,
        connections=max(len(urls) * 2, CONNECTIONS),
        due=due,
        after=after_ms,
    )


def _lateness(run: sqs.Run) -> Figures:
    # Messages that were never leased before (a filler sends a few more than requested) are not counted.
    ordered = sorted(late for late in run.lateness_ms if late > -_EARLY_MS_MAX)
    assert ordered, "nothing fell due"
    return {
        "arrived": run.messages,
        "early_most_ms": -min(ordered[0], 0),
        "late_p50_ms": percentile(ordered, 0.5),
        "late_p99_ms": percentile(ordered, 0.99),
        "late_most_ms": ordered[-1],
    }


PARTS: dict[str, Callable[[Sizes], Figures]] = {
    "waiting": waiting,
    "to-live": waiting_to_live,
    "groups": waiting_groups,
    "idle": idle_queues,
    "delayed": delayed,
    "leases": leases,
    "months": months,
    "straggler": lambda sizes: straggler(sizes.straggler_seconds),
}
LONG = ("straggler",)  # An hour: asked for by name.


def run(parts: list[str], sizes: Sizes) -> dict[str, object]:
    needed = sizes.waiting * 200 + 2_000_000_000
    free = shutil.disk_usage(tempfile.gettempdir()).free
    if free < needed:
        raise SystemExit(f"this needs {needed / 1e9:.0f} GB, {free / 1e9:.0f} GB are free")
    figures: dict[str, Figures] = {}
    for part in parts:
        say(f"queues: {part}")
        figures[part] = PARTS[part](sizes)
    return {"machine": machine.describe(), "taken": time.strftime("%Y-%m-%d", time.gmtime()), "parts": figures}


def main(arguments: list[str]) -> None:
    from bench import queues_tables, report

    parser = argparse.ArgumentParser(prog="bench queues", description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="small sizes, not published: a check that the bench works")
    usual = [part for part in PARTS if part not in LONG]
    parser.add_argument("--parts", default=",".join(usual), help="separated by commas (default: %(default)s)")
    parser.add_argument("--publish", action=argparse.BooleanOptionalAction, help="write docs/benchmarks.md (full runs)")
    given = parser.parse_args(arguments)
    parts = [part for part in given.parts.split(",") if part in PARTS]
    result = run(parts, QUICK if given.quick else Sizes())
    _RESULTS.mkdir(exist_ok=True)
    kept = _RESULTS / f"queues-{time.strftime('%Y%m%d-%H%M%S')}.json"
    kept.write_text(json.dumps(result, indent=1) + "\n")
    print(queues_tables.tables(result))
    whole = not given.quick and set(usual) <= set(parts)
    if given.publish or (given.publish is None and whole):
        (_RESULTS / "queues.json").write_text(kept.read_text())
        report.publish()

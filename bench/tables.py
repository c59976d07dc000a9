"""The tables of the reports, from the stored JSON results.

Figures are medians over the rounds with their range; a ratio is the median of the ratios within each round, because
only measurements side by side are comparable.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Any

from bench.measure.figures import Spread

TITLES = {"longhall": "Longhall", "kafka": "Kafka, defaults", "kafka-flush": "Kafka, syncing"}
THROUGHPUT = {
    "produce_1k": "produce, 1 KB",
    "produce_100b": "produce, 100 B",
    "produce_1k_many": "produce, 1 KB, 4 clients",
    "consume_1k": "consume, 1 KB",
    "consume_100b": "consume, 100 B",
}
LATENCY = {
    "ping_1k": "one in flight",
    "half_own_1k": "half of its own throughput",
    "half_same_1k": "the same rate for all",
}
_FULL = 0.85

Result = dict[str, Any]


def spread(result: Result, line: str, broker: str, figure: str) -> Spread | None:
    """One figure over the rounds in which the broker took that line."""
    values = [
        each[line][broker][figure] for each in result["rounds"] if line in each and figure in each[line].get(broker, {})
    ]
    return Spread.of(values) if values else None


def ratio(result: Result, line: str, figure: str, over: str, under: str) -> float | None:
    """The median over rounds of the ratio of the `over` broker's figure to the `under` broker's."""
    both = [
        each[line][over][figure] / each[line][under][figure]
        for each in result["rounds"]
        if over in each[line] and under in each[line]
    ]
    return median(both) if both else None


def bottleneck(result: Result, line: str, broker: str) -> str:
    """The side that could not have been faster, from the CPU time of both and of their busiest threads."""
    shares = []
    for each in result["rounds"]:
        figures = each[line][broker]
        seconds = figures["seconds"]
        shares.append(
            (
                figures["client_busiest_thread_seconds"] / seconds,
                figures["broker_busiest_thread_seconds"] / seconds,
                (figures["client_cpu_seconds"] + figures["broker_cpu_seconds"]) / seconds,
                figures["others_cpu_seconds"] / seconds,
            )
        )
    client, server, together, others = (median(column) for column in zip(*shares, strict=True))
    cores = int(result["machine"]["cores"])
    if client >= _FULL and client >= server:
        return "client"
    if server >= _FULL:
        return "broker"
    if together + others >= _FULL * cores:
        return "all cores full"
    return "waiting: disk or turn-around"


def kafka_tables(result: Result) -> str:
    """All tables of the comparison, in Markdown."""
    brokers = [name for name in TITLES if name in result["settings"]["brokers"]]
    parts = [_throughput(result, brokers), _cpu(result, brokers), latency_tables(result, brokers)]
    return "\n\n".join([*parts, standing_table(result, brokers)])


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


def _throughput(result: Result, brokers: list[str]) -> str:
    others = [name for name in brokers if name != "longhall"] if "longhall" in brokers else []
    head = [
        "thousand messages a second",
        *(TITLES[each] for each in brokers),
        *(f"to {TITLES[each]}" for each in others),
    ]
    rows = []
    for line, title in THROUGHPUT.items():
        row = [title]
        for broker in brokers:
            row.append(_ranged(spread(result, line, broker, "messages_per_second"), 1e-3))
        for other in others:
            times = ratio(result, line, "messages_per_second", "longhall", other)
            row.append("" if times is None else f"**{times:.2f}x**")
        rows.append(row)
    return table(head, rows)


def _cpu(result: Result, brokers: list[str]) -> str:
    """CPU seconds for each gigabyte on both sides, and the bottleneck."""
    head = ["CPU s/GB, broker + client; bottleneck", *(TITLES[each] for each in brokers)]
    rows = []
    for line, title in THROUGHPUT.items():
        row = [title]
        for broker in brokers:
            figures = [each[line][broker] for each in result["rounds"]]
            gigabytes = [each["megabytes_per_second"] * each["seconds"] / 1e3 for each in figures]
            sides = [
                median(each[side] / volume for each, volume in zip(figures, gigabytes, strict=True))
                for side in ("broker_cpu_seconds", "client_cpu_seconds")
            ]
            row.append(f"{sides[0]:.1f} + {sides[1]:.1f}; {bottleneck(result, line, broker)}")
        rows.append(row)
    return table(head, rows)


def latency_tables(result: Result, brokers: list[str]) -> str:
    head = ["ms: p50 / p99 / p99.9", *(TITLES[each] for each in brokers)]
    rows = []
    for line, title in LATENCY.items():
        row = [title]
        for broker in brokers:
            rate = spread(result, line, broker, "messages_per_second")
            at = f" at {rate.median / 1e3:.0f} k/s" if rate and line != "ping_1k" else ""
            row.append((_percentiles(result, line, broker) or "cannot carry it") + at)
        rows.append(row)
    for size in ("1 KB", "64 KB"):
        own = _percentiles(result, "disk", size)
        rows.append([f"the disk's own write and sync, {size}", *([own] * len(brokers))])
    return table(head, rows)


def standing_table(result: Result, brokers: list[str]) -> str:
    rows = []
    for title, line, figure, scale, digits in (
        ("start to first metadata, s", "start", "start_seconds", 1.0, 2),
        ("resident memory, fresh, MB", "start", "resident_mb", 1.0, 0),
        ("resident memory after the load, MB", "memory", "resident_mb", 1.0, 0),
        ("the same, shared pages once (PSS), MB", "memory", "proportional_mb", 1.0, 0),
    ):
        cells = [_ranged(spread(result, line, broker, figure), scale, digits) for broker in brokers]
        rows.append([title, *cells])
    return table(["", *(TITLES[each] for each in brokers)], rows)


def _percentiles(result: Result, line: str, broker: str) -> str:
    found = [spread(result, line, broker, figure) for figure in ("p50_ms", "p99_ms", "p999_ms")]
    return " / ".join(f"{each.median:.2f}" for each in found if each is not None)


def _ranged(figure: Spread | None, scale: float, digits: int = 0) -> str:
    if figure is None:
        return "as defaults"
    low, high = figure.low * scale, figure.high * scale
    return f"{figure.median * scale:,.{digits}f} ({low:,.{digits}f} to {high:,.{digits}f})"


def growth_tables(result: Result) -> str:
    """The targets of a growing node, and what was measured."""
    brokers = {name: figures for name, figures in result["brokers"].items() if figures}
    rows: list[list[str]] = []
    count = _active_count(result)
    for title, cell in (
        ("one active partition, k/s", _active_one),
        (f"{count} active partitions, k/s: 16 KB to one, then to the next", _active_spread),
        (f"{count} active partitions, k/s: every record to another one", _active_keyed),
        ("idle partitions: memory", _idle_memory),
        ("idle partitions: restart after a clean stop, after SIGKILL", _idle_restart),
        ("long log: restart after a clean stop, nothing in the page cache", _log_restart),
        ("fetch at a random offset, short log: p50 / p99 ms, broker CPU us", _fetch_short),
        ("fetch at a random offset, long log: p50 / p99 ms, broker CPU us", _fetch_long),
        ("writers alone: p50 / p99 ms", _writers_alone),
        ("writers beside a reader of cold data: p50 / p99 ms", _writers_beside),
    ):
        rows.append([title, *(cell(figures) for figures in brokers.values())])
    return table(["", *(TITLES[name] for name in brokers)], rows)


def _active_count(result: Result) -> str:
    counts = {figures["active"]["partitions"] for figures in result["brokers"].values() if "active" in figures}
    return ", ".join(f"{count:,}" for count in sorted(counts)) or "many"


def _active_one(figures: Result) -> str:
    return f"{figures['active']['one_per_second'] / 1e3:,.0f}" if "active" in figures else ""


def _active_spread(figures: Result) -> str:
    return _active(figures, "spread")


def _active_keyed(figures: Result) -> str:
    return _active(figures, "keyed")


def _active(figures: Result, name: str) -> str:
    if "active" not in figures:
        return ""
    active = figures["active"]
    return f"{active[f'{name}_per_second'] / 1e3:,.0f}, **{active[f'{name}_to_one']:.2f}** of one"


def _idle_memory(figures: Result) -> str:
    if "idle" not in figures:
        return ""
    idle = figures["idle"]
    return (
        f"{idle['resident_mb']:.0f} MB with {idle['partitions']:,}, {idle['fresh_mb']:.0f} MB with none, "
        f"{idle['restarted_resident_mb']:.0f} MB after a restart"
    )


def _idle_restart(figures: Result) -> str:
    if "idle" not in figures:
        return ""
    return f"{figures['idle']['restart_clean_seconds']:.2f} s, {figures['idle']['restart_killed_seconds']:.2f} s"


def _log_restart(figures: Result) -> str:
    if "log" not in figures:
        return ""
    restart = figures["log"]["restart"]
    return f"{restart['restart_clean_seconds']:.2f} s with {restart['gigabytes']:.1f} GB"


def _fetch_short(figures: Result) -> str:
    return _fetch(figures["log"]["fetch_short"]) if "log" in figures else ""


def _fetch_long(figures: Result) -> str:
    return _fetch(figures["log"]["fetch_long"]) if "log" in figures else ""


def _fetch(fetch: Result) -> str:
    gigabytes = fetch["end_offset"] * 1024 / 1e9
    return f"{fetch['p50_ms']:.2f} / {fetch['p99_ms']:.2f}, {fetch['broker_cpu_us']:.0f} us ({gigabytes:.1f} GB)"


def _writers_alone(figures: Result) -> str:
    if "log" not in figures:
        return ""
    alone = figures["log"]["writers_alone"]
    return f"{alone['p50_ms']:.2f} / {alone['p99_ms']:.2f} at {alone['messages_per_second'] / 1e3:.0f} k/s"


def _writers_beside(figures: Result) -> str:
    if "log" not in figures:
        return ""
    beside = figures["log"]["writers_beside_reader"]
    return (
        f"{beside['p50_ms']:.2f} / {beside['p99_ms']:.2f}: p99 **{beside['p99_ratio']:.2f}x**, "
        f"reader at {beside['reader_megabytes_per_second']:.0f} MB/s"
    )

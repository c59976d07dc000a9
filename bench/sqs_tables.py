"""The section on the SQS door, from the stored JSON results."""

from __future__ import annotations

from statistics import median

from bench.tables import Result, bottleneck, ratio, spread, table

TITLES = {
    "longhall": "Longhall",
    "elasticmq": "ElasticMQ, in memory",
    "elasticmq-stored": "ElasticMQ, stored",
    "moto": "moto",
    "bare": "bare HTTP loop",
}
VERBS = ("send", "receive", "delete")
BATCHES = {"single": "single", "ten": "batches of ten"}
LINES = {f"{verb}_{label}": f"{verb}, {words}" for verb in VERBS for label, words in BATCHES.items()}

_HOW = """### How it was measured

- One server each, on loopback, all up at the same time and warmed; one is loaded at a time. {rounds} rounds; each
  begins with another server. Cells are medians over the rounds with their range; ratios are medians of the ratios
  within each round.
- **Longhall syncs before it answers**, as it does by default. ElasticMQ and moto keep messages in memory, as they
  ship; "stored" is ElasticMQ with its H2 database. The bare loop is uvloop and httptools with constant answers of the
  same size: what HTTP alone costs a Python server.
- The client is one C program for all: {connections} keep-alive connections, one request in flight on each, JSON 1.0,
  bodies of {size_bytes} bytes. Send fills a queue, receive leases what was sent, delete settles what was leased; a
  refused request or a failed entry ends the run.
- Half load: a request is due at fixed times at half of the rate that the server reached in that round, and its latency
  counts from when it was due.
- "Bottleneck" is the client or the server when one of its threads was busy for at least 85% of the time, "all cores
  full" when the machine had nothing left, and otherwise waiting: for the disk, or for the turn-around of requests.
"""


def _servers(result: Result) -> list[str]:
    return [name for name in TITLES if name in result["settings"]["brokers"]]


def tables(result: Result) -> str:
    """All tables, in Markdown."""
    return "\n\n".join(
        [_throughput(result), _life(result), _latency(result, ""), _latency(result, "_half"), _cpu(result)]
    )


def section(result: Result) -> str:
    on = result["machine"]
    taken = (
        f"Taken {result['taken']} on {on['cores']} cores of {on['processor']}, {on['memory']}, Linux {on['kernel']}; "
        f"Longhall {on['longhall']}, Python {on['python']}; ElasticMQ {on['elasticmq']}, Java {on['java']}; "
        f"moto {on['moto']}."
    )
    parts = [
        "## The SQS door",
        "![Throughput and latency of Longhall's SQS door, ElasticMQ and moto](benchmarks/sqs.svg)",
        tables(result),
        f"### Targets\n\n{_targets(result)}",
        _HOW.format(**result["settings"]),
        taken,
    ]
    return "\n\n".join(parts) + "\n"


def _throughput(result: Result) -> str:
    servers = _servers(result)
    others = [name for name in servers if name != "longhall"] if "longhall" in servers else []
    rows = []
    for line, title in LINES.items():
        row = [title]
        for server in servers:
            figure = spread(result, line, server, "requests_per_second")
            row.append("" if figure is None else f"{figure.median:,.0f} ({figure.low:,.0f} to {figure.high:,.0f})")
        for other in others:
            times = ratio(result, line, "requests_per_second", "longhall", other)
            row.append("" if times is None else f"**{times:,.2f}x**")
        rows.append(row)
    head = ["requests a second", *(TITLES[each] for each in servers), *(f"to {TITLES[each]}" for each in others)]
    return table(head, rows)


def _life(result: Result) -> str:
    """Messages a second if each is sent, received and deleted before the next one: the rate of a user of all three."""
    servers = [name for name in _servers(result) if name != "bare"]
    others = [name for name in servers if name != "longhall"] if "longhall" in servers else []
    rows = []
    for label, words in BATCHES.items():
        row = [words]
        row += [f"{median(_lives(result, server, label)):,.0f}" for server in servers]
        row += [f"**{_times(result, label, other):,.1f}x**" for other in others]
        rows.append(row)
    head = ["messages a second, sent, received and deleted", *(TITLES[each] for each in servers)]
    return table([*head, *(f"to {TITLES[each]}" for each in others)], rows)


def _lives(result: Result, server: str, label: str) -> list[float]:
    return [
        1 / sum(1 / each[f"{verb}_{label}"][server]["messages_per_second"] for verb in VERBS)
        for each in result["rounds"]
    ]


def _times(result: Result, label: str, other: str) -> float:
    pairs = zip(_lives(result, "longhall", label), _lives(result, other, label), strict=True)
    return median(own / theirs for own, theirs in pairs)


def _latency(result: Result, suffix: str) -> str:
    servers = _servers(result)
    rows = []
    for line, title in LINES.items():
        row = [title]
        for server in servers:
            p50 = spread(result, line + suffix, server, "p50_ms")
            p99 = spread(result, line + suffix, server, "p99_ms")
            row.append("" if p50 is None or p99 is None else f"{p50.median:,.2f} / {p99.median:,.2f}")
        rows.append(row)
    own = [spread(result, "disk", "1 KB", figure) for figure in ("p50_ms", "p99_ms")]
    said = " / ".join(f"{each.median:.2f}" for each in own if each is not None)
    rows.append(["the disk's own write and sync, 1 KB", *([said] * len(servers))])
    load = "half load" if suffix else "all connections busy"
    return table([f"ms, {load}: p50 / p99", *(TITLES[each] for each in servers)], rows)


def _cpu(result: Result) -> str:
    """CPU microseconds of a request on both sides, and the bottleneck."""
    servers = _servers(result)
    rows = []
    for line, title in LINES.items():
        row = [title]
        for server in servers:
            figures = [each[line][server] for each in result["rounds"]]
            sides = [
                median(each[side] / each["requests"] * 1e6 for each in figures)
                for side in ("broker_cpu_seconds", "client_cpu_seconds")
            ]
            row.append(f"{sides[0]:,.0f} + {sides[1]:,.0f}; {bottleneck(result, line, server)}")
        rows.append(row)
    others = [
        figures["others_cpu_seconds"] / figures["seconds"]
        for each in result["rounds"]
        for line in LINES
        for figures in each[line].values()
    ]
    head = ["CPU us a request, server + client; bottleneck", *(TITLES[each] for each in servers)]
    strangers = (
        f"Strangers on the machine, the other servers among them, took {median(others):.2f} of a core meanwhile."
    )
    return f"{table(head, rows)}\n\n{strangers}"


def _targets(result: Result) -> str:
    rows = []
    if {"longhall", "moto"} <= set(_servers(result)):
        for label, words in BATCHES.items():
            lives = _times(result, label, "moto")
            said = f"sent, received and deleted, {words}: at least 100 times moto"
            rows.append([said, f"{lives:,.1f}x", _held(lives >= 100)])
    for other, least, words in (
        ("moto", 100.0, "at least 100 times moto"),
        ("elasticmq", 1.0, "ahead of ElasticMQ in memory"),
        ("elasticmq-stored", 1.0, "ahead of ElasticMQ, stored"),
    ):
        for line, title in LINES.items():
            times = ratio(result, line, "requests_per_second", "longhall", other)
            if times is not None:
                rows.append([f"{title}: {words}", f"{times:,.1f}x", _held(times >= least)])
    for line, title in LINES.items():
        late = spread(result, f"{line}_half", "longhall", "p99_ms")
        if late is not None:
            words = f"{title}: p99 under half load in single-digit milliseconds"
            rows.append([words, f"{late.median:.2f} ms", _held(late.median < 10)])
    return table(["target", "measured", ""], rows)


def _held(reached: bool) -> str:
    return "reached" if reached else "**missed**"

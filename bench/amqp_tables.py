"""The section on the AMQP door, from the stored JSON results."""

from __future__ import annotations

from statistics import median

from bench.tables import Result, bottleneck, ratio, spread, table

TITLES = {
    "longhall": "Longhall",
    "rabbitmq-classic": "RabbitMQ, classic queues",
    "rabbitmq-quorum": "RabbitMQ, quorum queues",
    "nats": "NATS JetStream, defaults",
    "nats-always": "NATS JetStream, syncing",
    "redis": "Redis streams, syncing",
}
WITHOUT_AMQP = ("nats", "nats-always", "redis")
SIZES = {"100b": "100 B", "1k": "1 KB"}
COUNTS = {"1": "one queue", "10": "ten queues"}
LINES = {
    f"{verb}_{size}_{count}": f"{verb}, {size_words}, {count_words}"
    for verb in ("publish", "consume")
    for size, size_words in SIZES.items()
    for count, count_words in COUNTS.items()
} | {"fanout_100b": "publish, 100 B, fanout to ten queues"}
STOMP_LINES = {
    f"stomp_{verb}_{size}": f"STOMP, {verb}, {size_words}, one queue"
    for verb in ("publish", "consume")
    for size, size_words in SIZES.items()
}
LATENCIES = {
    f"{load}_{size}": f"{words}, {size_words}"
    for load, words in (("half", "half of its own rate"), ("same", "the same rate for all"))
    for size, size_words in SIZES.items()
}
# How many times the peer's rate the published target is, by verb.
TARGETS = {
    "rabbitmq-classic": {"publish": 5.0, "consume": 2.0},
    "rabbitmq-quorum": {"publish": 2.0, "consume": 2.0},
    "nats-always": {"publish": 1.0, "consume": 1.0},
}
IDLE_MB_MAX = 500.0
IDLE_CONNECTIONS = 10_000
ROUTING_MIN = 0.5
FOLLOWER_MIN = 0.6

_HOW = """### How it was measured

- One server each, on loopback, all up at the same time and warmed; one is loaded at a time. {rounds} rounds; each
  begins with another peer. Cells are medians over the rounds with their range; ratios are medians of the ratios
  within each round.
- Durable queues, persistent messages, publisher confirms. **Longhall syncs before it confirms.** RabbitMQ is Debian's
  package with its defaults, one node: a quorum queue of one member syncs its log, a classic queue writes.
- The client is one C program for all: one connection that publishes with at most {window} unconfirmed messages, and
  one that consumes with a prefetch of {window} and acknowledges every {ack_every}th message with `multiple`. A close, a
  nack or a missing message ends the run. The consume line empties what the publish line before it has filled.
- NATS, Redis and STOMP have another C program for the same load. NATS: subjects of one stream on disk, every message
  acknowledged by the stream, a push consumer with the acknowledgement policy `all`. Its defaults sync every two
  minutes; "syncing" has `sync_interval: always`.
- Redis is Debian's package with `appendonly yes` and `appendfsync always`: a queue is a stream with a consumer group.
  The consumer keeps ten reads of {ack_every} messages under way and acknowledges each answer whole.
- STOMP: version 1.2, persistent messages with a receipt each, `ack:client`, the same window and prefetch. RabbitMQ has
  its plugin enabled.
- End to end: one connection publishes at fixed times, another consumes; the latency counts from when a message was due.
  A peer's own rate is that of messages published and consumed in turn.
- Routing, idle connections and the way through a node that does not lead were measured on Longhall alone. "Spread"
  publishes to all queues in turn, so that a batch for one queue is small; "same ten" to ten of them.
- "Bottleneck" is the client or the server when one of its threads was busy for at least 85% of the time, "all cores
  full" when the machine had nothing left, and otherwise waiting: for the disk, or for the turn-around of confirms.
"""


def _peers(result: Result) -> list[str]:
    return [name for name in TITLES if name in result["settings"]["brokers"]]


def tables(result: Result) -> str:
    """All tables, in Markdown."""
    return "\n\n".join([_throughput(result), _stomp(result), _latency(result), _cpu(result), _alone(result)])


def section(result: Result) -> str:
    on = result["machine"]
    taken = (
        f"Taken {result['taken']} on {on['cores']} cores of {on['processor']}, {on['memory']}, Linux {on['kernel']}; "
        f"Longhall {on['longhall']}, Python {on['python']}; RabbitMQ {on['rabbitmq']}; NATS {on['nats']}; "
        f"Redis {on['redis']}."
    )
    parts = [
        "## The AMQP door",
        tables(result),
        f"### Targets\n\n{_targets(result)}",
        _HOW.format(**result["settings"]),
        taken,
    ]
    return "\n\n".join(parts) + "\n"


def _throughput(result: Result) -> str:
    peers = _peers(result)
    others = [name for name in peers if name != "longhall"] if "longhall" in peers else []
    rows = []
    for line, title in LINES.items():
        row = [title, *(_range(result, line, peer) for peer in peers)]
        for other in others:
            times = ratio(result, line, "messages_per_second", "longhall", other)
            row.append("" if times is None else f"**{times:,.1f}x**")
        rows.append(row)
    memory = ["memory, MB"]
    for peer in peers:
        figure = spread(result, "memory", peer, "resident_mb")
        memory.append("" if figure is None else f"{figure.median:,.0f}")
    rows.append([*memory, *([""] * len(others))])
    head = ["messages a second", *(TITLES[each] for each in peers), *(f"to {TITLES[each]}" for each in others)]
    return table(head, rows)


def _stomp(result: Result) -> str:
    rows = []
    for line, title in STOMP_LINES.items():
        times = ratio(result, line, "messages_per_second", "longhall", "rabbitmq-classic")
        rates = [_range(result, line, peer) for peer in ("longhall", "rabbitmq-classic")]
        rows.append([title, *rates, "" if times is None else f"**{times:,.1f}x**"])
    return table(["messages a second", "Longhall", "RabbitMQ", "to RabbitMQ"], rows)


def _range(result: Result, line: str, peer: str) -> str:
    figure = spread(result, line, peer, "messages_per_second")
    return "" if figure is None else f"{figure.median:,.0f} ({figure.low:,.0f} to {figure.high:,.0f})"


def _latency(result: Result) -> str:
    peers = [peer for peer in _peers(result) if peer not in WITHOUT_AMQP]
    rows = []
    for line, title in LATENCIES.items():
        row = [title]
        for peer in peers:
            p50, p99 = spread(result, line, peer, "p50_ms"), spread(result, line, peer, "p99_ms")
            rate = spread(result, line, peer, "rate")
            known = p50 is not None and p99 is not None and rate is not None
            row.append(f"{p50.median:,.2f} / {p99.median:,.2f} at {rate.median:,.0f}/s" if known else "")  # type: ignore[union-attr]
        rows.append(row)
    own = [spread(result, "disk", "1 KB", figure) for figure in ("p50_ms", "p99_ms")]
    said = " / ".join(f"{each.median:.2f}" for each in own if each is not None)
    rows.append(["the disk's own write and sync, 1 KB", *([said] * len(peers))])
    return table(["ms end to end: p50 / p99", *(TITLES[each] for each in peers)], rows)


def _cpu(result: Result) -> str:
    """CPU microseconds of a message on both sides, and the bottleneck."""
    peers = _peers(result)
    rows = []
    for line, title in LINES.items():
        row = [title]
        for peer in peers:
            figures = [each[line][peer] for each in result["rounds"] if peer in each[line]]
            if not figures:
                row.append("")
                continue
            sides = [
                median(each[side] / each["messages"] * 1e6 for each in figures)
                for side in ("broker_cpu_seconds", "client_cpu_seconds")
            ]
            row.append(f"{sides[0]:,.1f} + {sides[1]:,.1f}; {bottleneck(result, line, peer)}")
        rows.append(row)
    others = [
        figures["others_cpu_seconds"] / figures["seconds"]
        for each in result["rounds"]
        for line in LINES
        for figures in each[line].values()
    ]
    head = ["CPU us a message, server + client; bottleneck", *(TITLES[each] for each in peers)]
    strangers = f"Strangers on the machine, the other server among them, took {median(others):.2f} of a core meanwhile."
    return f"{table(head, rows)}\n\n{strangers}"


def _rate(result: Result, part: str, line: str) -> float:
    return float(median(each["messages_per_second"] for each in result[part][line].values()))


def _times(result: Result, part: str, over: str, under: str) -> float:
    """The median over rounds of the ratio of two lines."""
    rounds = result[part][over]
    times: float = median(
        figures["messages_per_second"] / result[part][under][number]["messages_per_second"]
        for number, figures in rounds.items()
    )
    return times


def _alone(result: Result) -> str:
    """What is measured on Longhall alone."""
    rows = []
    for label, words in (("same", "the same ten"), ("spread", "spread over all")):
        few, many = (f"{_rate(result, 'routing', f'{label}_{count}'):,.0f}" for count in (10, 1000))
        times = _times(result, "routing", f"{label}_1000", f"{label}_10")
        rows.append([f"topic exchange, 10 and 1,000 queues, {words}: messages/s", few, many, f"{times:.2f}"])
    for verb in ("publish", "consume"):
        led, followed = (f"{_rate(result, 'follower', f'{verb}_{role}'):,.0f}" for role in ("leader", "follower"))
        times = _times(result, "follower", f"{verb}_follower", f"{verb}_leader")
        rows.append(
            [f"{verb}, 1 KB, three nodes, at the leader and at another: messages/s", led, followed, f"{times:.2f}"]
        )
    still = result["idle"]
    words = f"memory before and with {still['connections']:,} idle connections, MB"
    rows.append([words, f"{still['before_mb']:,.0f}", f"{still['resident_mb']:,.0f}", ""])
    return table(["Longhall alone", "", "", "ratio"], rows)


def _targets(result: Result) -> str:
    rows = []
    for peer, targets in TARGETS.items():
        for line, title in LINES.items():
            times = ratio(result, line, "messages_per_second", "longhall", peer)
            least = targets["consume" if line.startswith("consume") else "publish"]
            if times is not None:
                rows.append(
                    [f"{title}: at least {least:.0f} times {TITLES[peer]}", f"{times:.1f}x", _held(times >= least)]
                )
        for line, title in LATENCIES.items():
            own, theirs = spread(result, line, "longhall", "p99_ms"), spread(result, line, peer, "p99_ms")
            if own is not None and theirs is not None and line.startswith("same"):
                words = f"{own.median:.2f} against {theirs.median:.2f} ms"
                rows.append([f"p99, {title}: no worse than {TITLES[peer]}", words, _held(own.median <= theirs.median)])
    for label, words in (("same", "the same ten keys"), ("spread", "all keys")):
        times = _times(result, "routing", f"{label}_1000", f"{label}_10")
        rows.append([f"1,000 bound queues, {words}: half the rate of ten", f"{times:.2f}", _held(times >= ROUTING_MIN)])
    for verb in ("publish", "consume"):
        times = _times(result, "follower", f"{verb}_follower", f"{verb}_leader")
        words = f"{verb} at a node that does not lead: at least {FOLLOWER_MIN} of the leader"
        rows.append([words, f"{times:.2f}", _held(times >= FOLLOWER_MIN)])
    rows.append(_idle_target(result))
    return table(["target", "measured", ""], rows)


def _idle_target(result: Result) -> list[str]:
    """With fewer connections than the target names, what as many would need at the same memory a connection."""
    still = result["idle"]
    each_mb = (still["resident_mb"] - still["before_mb"]) / still["connections"]
    weight = still["before_mb"] + each_mb * IDLE_CONNECTIONS
    words = f"{weight:,.0f} MB"
    if still["connections"] < IDLE_CONNECTIONS:
        words += f", from {still['connections']:,} connections"
    return [f"{IDLE_CONNECTIONS:,} idle connections under {IDLE_MB_MAX:.0f} MB", words, _held(weight < IDLE_MB_MAX)]


def _held(reached: bool) -> str:
    return "reached" if reached else "**missed**"

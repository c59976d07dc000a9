"""The tables of `bench cluster`, and its section of the report."""

from __future__ import annotations

from statistics import median

from bench.cluster_steps import HOT_CLIENTS, PRODUCERS, STEADY_SHARE
from bench.tables import TITLES, Result, bottleneck, latency_tables, ratio, spread, standing_table, table

LINES = {
    "produce_1k": "produce, 1 KB",
    "produce_100b": "produce, 100 B",
    "consume_1k": "consume, 1 KB",
    "consume_100b": "consume, 100 B",
}
TAKEN_MAX = 0.2

_HOW = """### How it was measured

- Three nodes each on one machine and one disk, both clusters up at the same time; one is loaded at a time. {rounds}
  rounds; a round takes every line on both before the next line, and each round begins with another. Cells are medians
  over the rounds with their range; ratios are medians of the ratios within each round. Each measurement waits until
  what earlier ones deleted has left the disk: on one that discards as it goes every sync waits for that.
- Longhall is `longhall cluster up --nodes 3` with its defaults and a real ZooKeeper: an acknowledgement means synced on
  **all three disks**. Kafka is three nodes that are broker and controller at once, replication factor 3,
  `min.insync.replicas=2`, heap and flags of its own start script; it acknowledges from the page cache of all in sync.
- The client: {client} {librdkafka}, `acks=all`, `linger.ms=5`, no compression, every delivery reported
  to the program, otherwise its defaults; one partition and one connection. After each produce line the log's end offset
  is compared with what was acknowledged. What a consume line reads was read once before it, so that it is in memory.
- CPU by role: the node that leads the partition, its two followers together, and what serves all (ZooKeeper).
- Many queues: made through SQS, then sent one message of 1 KB a second each, once by {producers} Kafka producers
  (a queue is a topic of the same name), once by 64 connections of SQS with a message a request.
- Hot beside steady: {clients} clients fill one queue as fast as they can while another gets a steady rate, a {share}
  of what one queue alone can have. What is taken is the part of that rate that was not acknowledged within the time.
- A killed leader: `kill -9` of the process that leads, under {rate:.0f} messages a second; the longest that a message
  waited.
"""


def tables(result: Result) -> str:
    """All measurements, in Markdown."""
    brokers = [name for name in TITLES if name in result["settings"]["brokers"]]
    parts = []
    if "rounds" in result:
        parts += [_throughput(result, brokers), _cpu(result, brokers), latency_tables(result, brokers)]
        parts.append(_standing(result, brokers))
    parts += [part(result) for key, part in (("many", _many), ("hot", _hot), ("failover", _failover)) if key in result]
    return "\n\n".join(parts)


def section(result: Result, machine_words: str) -> str:
    """The section of the report."""
    how = _HOW.format(
        rounds=result["settings"]["rounds"],
        clients=HOT_CLIENTS,
        producers=PRODUCERS,
        share={4: "quarter"}.get(STEADY_SHARE, f"1/{STEADY_SHARE}"),
        rate=1000.0,
        **result["machine"],
    )
    parts = [
        f"## Three nodes beside three of Apache Kafka {result['machine']['kafka']}",
        "![Throughput, latency and memory of both clusters](benchmarks/cluster.svg)",
        tables(result),
        f"### Targets of the cluster\n\n{_targets(result)}",
        how,
        machine_words,
    ]
    return "\n\n".join(parts) + "\n"


def _throughput(result: Result, brokers: list[str]) -> str:
    others = [name for name in brokers if name != "longhall"] if "longhall" in brokers else []
    head = [
        "thousand messages a second",
        *(TITLES[each] for each in brokers),
        *(f"to {TITLES[each]}" for each in others),
    ]
    rows = []
    for line, title in LINES.items():
        row = [title]
        for broker in brokers:
            figure = spread(result, line, broker, "messages_per_second")
            assert figure is not None
            row.append(f"{figure.median / 1e3:,.0f} ({figure.low / 1e3:,.0f} to {figure.high / 1e3:,.0f})")
        row += [f"**{ratio(result, line, 'messages_per_second', 'longhall', other) or 0:.2f}x**" for other in others]
        rows.append(row)
    return table(head, rows)


def _cpu(result: Result, brokers: list[str]) -> str:
    """CPU seconds for each gigabyte by role, and the bottleneck."""
    head = ["CPU s/GB: leader + followers + beside + client; bottleneck", *(TITLES[each] for each in brokers)]
    rows = []
    for line, title in LINES.items():
        row = [title]
        for broker in brokers:
            figures = [each[line][broker] for each in result["rounds"]]
            gigabytes = [each["megabytes_per_second"] * each["seconds"] / 1e3 for each in figures]
            sides = [
                median(each[f"{side}_cpu_seconds"] / volume for each, volume in zip(figures, gigabytes, strict=True))
                for side in ("leader", "followers", "beside", "client")
            ]
            row.append(" + ".join(f"{side:.1f}" for side in sides) + f"; {bottleneck(result, line, broker)}")
        rows.append(row)
    return table(head, rows)


def _standing(result: Result, brokers: list[str]) -> str:
    own = standing_table(result, brokers)
    cells = []
    for broker in brokers:
        figure = spread(result, "memory", broker, "beside_mb")
        cells.append(f"{figure.median:.0f}" if figure is not None and figure.median >= 1 else "-")
    return own + "\n| " + " | ".join(["beside the nodes (ZooKeeper), MB", *cells]) + " |"


def _many(result: Result) -> str:
    figures = result["many"]
    made = figures["made"]
    rows = [
        [
            f"{made['queues']:,.0f} replicated queues",
            f"made in {made['seconds']:.0f} s; {made['resident_mb']:.0f} MB, three nodes together",
        ]
    ]
    for name, words in (("kafka", "by Kafka producers"), ("sqs", "by SQS senders")):
        if name in figures:
            each = figures[name]
            rows.append(
                [
                    f"a message a second to each, {words}",
                    f"**{each['messages_per_second']:,.0f}/s** of {each['asked_per_second']:,.0f}; p50 / p99 "
                    f"{each['p50_ms']:.1f} / {each['p99_ms']:.1f} ms; cores: leader {each['leader_cores']:.2f}, "
                    f"followers {each['followers_cores']:.2f}, client {each['client_cores']:.2f}",
                ]
            )
    return table(["many queues", "Longhall"], rows)


def _hot(result: Result) -> str:
    rows = []
    brokers = [name for name in TITLES if name in result["hot"]]
    for title, cell in (("steady queue alone", _steady_alone), ("beside a hot one", _steady_beside)):
        rows.append([title, *(cell(result["hot"][name]) for name in brokers)])
    return table(["a hot queue beside another", *(TITLES[name] for name in brokers)], rows)


def _steady_alone(figures: Result) -> str:
    alone = figures["alone"]
    return f"{alone['messages_per_second'] / 1e3:.1f} k/s, p99 {alone['p99_ms']:.1f} ms"


def _steady_beside(figures: Result) -> str:
    beside = figures["beside"]
    return (
        f"{beside['messages_per_second'] / 1e3:.1f} k/s, p99 {beside['p99_ms']:.1f} ms; "
        f"**{beside['taken_share']:.0%}** taken by {beside['hot_per_second'] / 1e3:.0f} k/s"
    )


def _failover(result: Result) -> str:
    brokers = [name for name in TITLES if name in result["failover"]]
    cells = []
    for name in brokers:
        each = result["failover"][name]
        cells.append(f"{each['gap_seconds']:.1f} s (at most {each['gap_seconds_max']:.1f})")
    return table(
        ["the leader is killed", *(TITLES[name] for name in brokers)], [["producer answered again after", *cells]]
    )


def _targets(result: Result) -> str:
    rows = []
    for line, title in LINES.items():
        times = ratio(result, line, "messages_per_second", "longhall", "kafka")
        if times is not None:
            rows.append([f"{title}: at or ahead of Kafka", f"{times:.2f}x", _held(times >= 1)])
    sync = spread(result, "disk", "1 KB", "p99_ms")
    for line, title in (("ping_1k", "one in flight"), ("half_same_1k", "same rate")):
        ours, theirs = spread(result, line, "longhall", "p99_ms"), spread(result, line, "kafka", "p99_ms")
        if ours is not None and theirs is not None and sync is not None:
            words = f"{ours.median:.2f} ms against {theirs.median:.2f} + {sync.median:.2f} ms"
            held = _held(ours.median <= theirs.median + sync.median)
            rows.append([f"p99, {title}: not behind beyond the disk's own sync", words, held])
    if "many" in result:
        queues = result["many"]["made"]["queues"]
        for name, words in (("kafka", "Kafka producers"), ("sqs", "SQS senders")):
            reached = result["many"][name]["messages_per_second"]
            title = f"{queues:,.0f} replicated queues with a message a second each, {words}"
            rows.append([title, f"{reached:,.0f}/s", _held(reached >= 0.98 * queues)])
    if "hot" in result:
        taken = result["hot"]["longhall"]["beside"]["taken_share"]
        rows.append(
            ["a hot queue takes at most 20 % from another's throughput", f"{taken:.0%}", _held(taken <= TAKEN_MAX)]
        )
    return table(["target", "measured", ""], rows)


def _held(reached: bool) -> str:
    return "reached" if reached else "**missed**"

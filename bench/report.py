"""Renders the stored results as `docs/benchmarks.md` and its plots.

Nothing is measured here, and every statement follows from the stored JSON: the bottleneck from the CPU times of both
sides, and a reached target from the medians.
"""

from __future__ import annotations

import json
from pathlib import Path
from statistics import median
from typing import Any

from bench import amqp_tables, cluster_tables, plot, queues_tables, spark_tables, sqs_tables
from bench.tables import THROUGHPUT, TITLES, bottleneck, growth_tables, kafka_tables, ratio, spread, table

_ROOT = Path(__file__).resolve().parent.parent
_RESULTS = Path(__file__).with_name("results")
_PAGE = _ROOT / "docs" / "benchmarks.md"
_PICTURE = _ROOT / "docs" / "benchmarks" / "kafka.svg"
_SQS_PICTURE = _PICTURE.with_name("sqs.svg")
_CLUSTER_PICTURE = _PICTURE.with_name("cluster.svg")

__all__ = ["growth_tables", "kafka_tables", "main", "publish"]

Result = dict[str, Any]

_HEAD = """# Benchmarks

Rendered by `./dev bench kafka`, `growth`, `cluster`, `sqs`, `amqp`, `queues` and `spark` from the results kept in
`bench/results/`; not edited by hand.
Absolute figures belong to the machine they were taken on. The ratios are the message: both sides ran in the same
minutes, on the same disk, under the same client.
"""

_KAFKA_HOW = """### How it was measured

- One node each, on loopback, all up at the same time; one is loaded at a time. {rounds} rounds; a round takes every
  line on every broker before the next line, and each round begins with another broker. Cells are medians over the
  rounds with their range; ratios are medians of the ratios within each round.
- Longhall runs with its defaults: **it syncs before it acknowledges**. Kafka's defaults acknowledge from the page
  cache; "Kafka, syncing" is the same broker with `log.flush.interval.messages=1`. Kafka has the heap (1 GB) and the
  collector's flags of its own start script.
- The client: {client} {librdkafka}, `acks=all`, `linger.ms=5`, no compression, every delivery reported
  to the program, otherwise its defaults; one partition and one connection, except in the line with four clients. After
  each produce line the log's end offset is compared with what was acknowledged. Consume lines read a log that lies in
  the page cache.
- Latency is from the moment a message was due to its delivery report. One in flight: `linger.ms=0`. Half load: a steady
  rate with `linger.ms=5`, once half of the broker's own throughput of that round, once the same rate for all (half of
  the slower of Longhall and Kafka's defaults).
- The file system is synced before each measurement, so that nobody pays for another's dirty pages. CPU counts all
  processes of a broker. The disk's own sync is `pwrite` and `fdatasync` on a bare file, in the same rounds.
- "Bottleneck" is the client or the broker when one of its threads was busy for at least 85% of the time, "all cores
  full" when the machine had nothing left, and otherwise waiting: for the disk, or for the turn-around of requests.
"""


def publish() -> None:
    """Write the page and its plots from all stored results."""
    parts = [_HEAD]
    if (_RESULTS / "kafka.json").exists():
        result = json.loads((_RESULTS / "kafka.json").read_text())
        plot.kafka_picture(result, _PICTURE)
        parts.append(_kafka_section(result))
    if (_RESULTS / "growth.json").exists():
        parts.append(_growth_section(json.loads((_RESULTS / "growth.json").read_text())))
    if (_RESULTS / "cluster.json").exists():
        result = json.loads((_RESULTS / "cluster.json").read_text())
        plot.cluster_picture(result, _CLUSTER_PICTURE)
        parts.append(cluster_tables.section(result, _machine_words(result)))
    if (_RESULTS / "sqs.json").exists():
        result = json.loads((_RESULTS / "sqs.json").read_text())
        plot.sqs_picture(result, _SQS_PICTURE)
        parts.append(sqs_tables.section(result))
    if (_RESULTS / "amqp.json").exists():
        parts.append(amqp_tables.section(json.loads((_RESULTS / "amqp.json").read_text())))
    if (_RESULTS / "queues.json").exists():
        parts.append(queues_tables.section(json.loads((_RESULTS / "queues.json").read_text())))
    if (_RESULTS / "spark.json").exists():
        parts.append(spark_tables.section(json.loads((_RESULTS / "spark.json").read_text())))
    _PAGE.parent.mkdir(exist_ok=True)
    _PAGE.write_text("\n".join(parts))
    print(f"written: {_PAGE.relative_to(_ROOT)}")


def main(arguments: list[str]) -> None:
    publish()


def _kafka_section(result: Result) -> str:
    how = _KAFKA_HOW.format(rounds=result["settings"]["rounds"], **result["machine"])
    picture = "![Throughput, latency and memory of Longhall and Apache Kafka](benchmarks/kafka.svg)"
    parts = [
        f"## Beside Apache Kafka {result['machine']['kafka']}",
        picture,
        kafka_tables(result),
        f"### Who was the bottleneck\n\n{_bottleneck_words(result)}",
        f"### Targets\n\n{_targets(result)}",
        how,
        _machine_words(result),
    ]
    return "\n\n".join(parts) + "\n"


def _machine_words(result: Result) -> str:
    on = result["machine"]
    return (
        f"Taken {result['taken']} on {on['cores']} cores of {on['processor']}, {on['memory']}, Linux {on['kernel']}; "
        f"Longhall {on['longhall']}, Python {on['python']}; Kafka {on['kafka']}, Java {on['java']}."
    )


def _bottleneck_words(result: Result) -> str:
    lines = []
    for broker in (name for name in TITLES if name in result["settings"]["brokers"]):
        by_cause: dict[str, list[str]] = {}
        for line, title in THROUGHPUT.items():
            by_cause.setdefault(bottleneck(result, line, broker), []).append(title.replace(",", ""))
        said = "; ".join(f"**{cause}** in {', '.join(titles)}" for cause, titles in by_cause.items())
        lines.append(f"- {TITLES[broker]}: {said}.")
    others = [
        figures["others_cpu_seconds"] / figures["seconds"]
        for each in result["rounds"]
        for line in THROUGHPUT
        for figures in each[line].values()
    ]
    lines.append(
        f"- Strangers on the machine, the other brokers among them, took {median(others):.2f} of a core meanwhile."
    )
    return "\n".join(lines)


def _targets(result: Result) -> str:
    rows = []
    for line, title in THROUGHPUT.items():
        to_defaults = ratio(result, line, "messages_per_second", "longhall", "kafka")
        if to_defaults is not None:
            rows.append([f"{title}: at or ahead of Kafka's defaults", f"{to_defaults:.2f}x", _held(to_defaults >= 1)])
    sync = spread(result, "disk", "1 KB", "p99_ms")
    for line, title in (("ping_1k", "one in flight"), ("half_same_1k", "half load, same rate")):
        ours, theirs = spread(result, line, "longhall", "p99_ms"), spread(result, line, "kafka", "p99_ms")
        if ours is not None and theirs is not None and sync is not None:
            words = f"{ours.median:.2f} ms against {theirs.median:.2f} + {sync.median:.2f} ms"
            held = _held(ours.median <= theirs.median + sync.median)
            rows.append([f"p99, {title}: not behind beyond the disk's own sync", words, held])
    memory = ratio(result, "memory", "resident_mb", "longhall", "kafka")
    if memory is not None:
        rows.append(["resident memory: a quarter of Kafka's or less", f"{memory:.2f}x", _held(memory <= 0.25)])
    return table(["target", "measured", ""], rows)


def _growth_section(result: Result) -> str:
    return (
        "\n\n".join(
            [
                "## Growth",
                "Records of 1 KB, `linger.ms=5`, one node. Many and one, alone and beside a reader were taken in "
                "alternation; the cells are medians. A restart lasts until the node told the end of a partition.",
                growth_tables(result),
                _growth_targets(result),
                _machine_words(result),
            ]
        )
        + "\n"
    )


def _growth_targets(result: Result) -> str:
    ours = result["brokers"].get("longhall", {})
    if not {"active", "idle", "log"} <= ours.keys():
        return ""
    active, idle, log = ours["active"], ours["idle"], ours["log"]
    growth = log["fetch_long"]["p50_to_short"]
    beside = log["writers_beside_reader"]["p99_ratio"]
    restart = log["restart"]
    partitions = f"{idle['partitions']:,.0f} idle partitions"
    return table(
        ["target", "measured", ""],
        [
            *(
                [
                    f"{active['partitions']:,.0f} active partitions, {words}: half the throughput of one",
                    f"{active[f'{name}_to_one']:.2f}",
                    _held(active[f"{name}_to_one"] >= 0.5),
                ]
                for name, words in (("spread", "16 KB to each in turn"), ("keyed", "a record to each in turn"))
            ),
            [f"{partitions}: under 250 MB", f"{idle['resident_mb']:.0f} MB", _held(idle["resident_mb"] < 250)],
            [
                f"{partitions}: restart within 10 s",
                f"{idle['restart_clean_seconds']:.2f} s",
                _held(idle["restart_clean_seconds"] <= 10),
            ],
            [
                f"{restart['gigabytes']:.0f} GB: restart within 3 s after a clean stop",
                f"{restart['restart_clean_seconds']:.2f} s",
                _held(restart["restart_clean_seconds"] <= 3),
            ],
            [
                "fetch cost does not grow with the log",
                f"p50 {growth:.2f}x at 100 times the length",
                _held(growth <= 1.25),
            ],
            ["a cold reader leaves the writers' p99 within twice", f"{beside:.2f}x", _held(beside <= 2)],
        ],
    )


def _held(reached: bool) -> str:
    return "reached" if reached else "**missed**"

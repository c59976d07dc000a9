"""The plots of the report, from the same results as the tables."""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bench import cluster_tables, sqs_tables
from bench.tables import LATENCY, THROUGHPUT, TITLES, Result, spread

_SHORT = {"ping_1k": "one in\nflight", "half_own_1k": "half load,\nits own", "half_same_1k": "half load,\nsame rate"}
_COLOURS = {
    "longhall": "#1f6f8b",
    "kafka": "#e0a458",
    "kafka-flush": "#9b9b9b",
    "elasticmq": "#e0a458",
    "elasticmq-stored": "#9b9b9b",
    "moto": "#b65b4e",
    "bare": "#c9d6db",
}


def kafka_picture(result: Result, path: Path) -> None:
    """Throughput, latency, start and memory side by side, medians with their range over the rounds."""
    _set_style()
    brokers = [name for name in TITLES if name in result["settings"]["brokers"]]
    figure, axes = plt.subplots(1, 3, figsize=(13, 4.2), width_ratios=[2.4, 2.4, 1.3], layout="constrained")
    _throughput(axes[0], result, brokers, THROUGHPUT)
    _latency(axes[1], result, brokers)
    _memory(axes[2], result, brokers)
    _save(figure, axes[0], path, len(brokers))


def cluster_picture(result: Result, path: Path) -> None:
    """The same for the clusters of three nodes."""
    _set_style()
    brokers = [name for name in TITLES if name in result["settings"]["brokers"]]
    figure, axes = plt.subplots(1, 3, figsize=(13, 4.2), width_ratios=[2.4, 2.4, 1.3], layout="constrained")
    _throughput(axes[0], result, brokers, cluster_tables.LINES)
    _latency(axes[1], result, brokers)
    _memory(axes[2], result, brokers)
    _save(figure, axes[0], path, len(brokers))


def sqs_picture(result: Result, path: Path) -> None:
    """Requests a second, and latency at half load."""
    _set_style()
    servers = [name for name in sqs_tables.TITLES if name in result["settings"]["brokers"]]
    figure, axes = plt.subplots(1, 2, figsize=(13, 4.2), layout="constrained")
    for place, (suffix, measure, label, title) in enumerate(
        (
            ("", "requests_per_second", "requests a second", "Throughput (higher is better)"),
            ("_half", "p99_ms", "ms", "Latency at half load, p99 (lower is better)"),
        )
    ):
        _bars(axes[place], result, servers, [(line + suffix, measure) for line in sqs_tables.LINES])
        names = [line.replace(", ", "\n") for line in sqs_tables.LINES.values()]
        axes[place].set_xticks(range(len(names)), names)
        axes[place].set_yscale("log")
        axes[place].set_ylabel(label)
        axes[place].set_title(title)
    _save(figure, axes[0], path, len(servers))


def _set_style() -> None:
    # A fixed salt and no date make the file the same for the same figures.
    plt.rcParams.update(
        {"svg.hashsalt": "longhall", "font.size": 9, "axes.spines.top": False, "axes.spines.right": False}
    )


def _save(figure: Figure, axes: Axes, path: Path, columns: int) -> None:
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=columns, frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def _throughput(axes: Axes, result: Result, brokers: list[str], lines: dict[str, str]) -> None:
    _bars(axes, result, brokers, [(line, "megabytes_per_second") for line in lines])
    axes.set_xticks(range(len(lines)), [title.replace(", ", "\n") for title in lines.values()])
    axes.set_ylabel("MB/s of record values")
    axes.set_title("Throughput, acks=all (higher is better)")


def _latency(axes: Axes, result: Result, brokers: list[str]) -> None:
    groups = [(line, figure) for line in LATENCY for figure in ("p50_ms", "p99_ms")]
    _bars(axes, result, brokers, groups)
    axes.set_xticks(range(len(groups)), [f"{_SHORT[line]}\n{figure[:3]}" for line, figure in groups])
    axes.set_yscale("log")
    axes.set_ylabel("ms")
    axes.set_title("Produce latency, 1 KB (lower is better)")
    own = spread(result, "disk", "1 KB", "p99_ms")
    if own is not None:
        axes.axhline(own.median, color="#444444", linewidth=0.8, linestyle="--")
        axes.annotate(
            "the disk's own sync, p99",
            (0.01, own.median),
            xycoords=("axes fraction", "data"),
            va="bottom",
            fontsize=7.5,
        )


def _memory(axes: Axes, result: Result, brokers: list[str]) -> None:
    _bars(axes, result, brokers, [("start", "resident_mb"), ("memory", "resident_mb")])
    axes.set_xticks(range(2), ["fresh", "after\nthe load"])
    axes.set_ylabel("resident MB")
    axes.set_title("Memory (lower is better)")


def _bars(axes: Axes, result: Result, brokers: list[str], groups: list[tuple[str, str]]) -> None:
    width = 0.8 / len(brokers)
    for place, broker in enumerate(brokers):
        found = [(at, spread(result, line, broker, figure)) for at, (line, figure) in enumerate(groups)]
        known = [(at, value) for at, value in found if value is not None]
        axes.bar(
            [at + (place - (len(brokers) - 1) / 2) * width for at, _ in known],
            [value.median for _, value in known],
            width=width * 0.92,
            color=_COLOURS[broker],
            label={**TITLES, **sqs_tables.TITLES}[broker],
            yerr=[[v.median - v.low for _, v in known], [v.high - v.median for _, v in known]],
            error_kw={"linewidth": 0.7, "ecolor": "#333333"},
        )

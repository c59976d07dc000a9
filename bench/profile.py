"""Where the node spends its time under one chosen load.

py-spy samples the Python stacks of every process of the node (with compiled frames on request), perf the C functions
and the kernel, cProfile counts calls in the serving process. A table of own and total shares is printed; raw stacks
stay in `bench/results/`, ready for a flame graph.
"""

from __future__ import annotations

import argparse
import pstats
import shutil
import subprocess
import time
from collections import Counter
from pathlib import Path

from bench.load import generator, topics
from bench.load.generator import Run
from bench.measure import process
from bench.measure.figures import latency_figures
from bench.peers.longhall import COMMAND, Longhall

_ROOT = Path(__file__).resolve().parent.parent
_RESULTS = Path(__file__).with_name("results")
LOADS = ("produce", "consume", "ping", "pace", "many")
TOOLS = ("pyspy", "perf", "cprofile", "none")


def apply_load(broker: Longhall, given: argparse.Namespace) -> Run:
    """Put the chosen load on the node, for about the given time."""
    address, size, seconds = broker.address, given.size, given.seconds
    if given.load == "produce":
        return generator.produce(
            address,
            "load",
            partitions=given.partitions,
            size_bytes=size,
            seconds=seconds,
            linger_ms=given.linger,
            run_messages=given.run,
            settings=tuple(given.set),
        )
    if given.load == "many":
        names = [f"load-{number}" for number in range(4)]
        for name in names:
            topics.create(address, name)
        return generator.produce_together(address, names, size_bytes=size, seconds=seconds, linger_ms=given.linger)
    if given.load == "ping":
        return generator.ping(address, "load", size_bytes=size, seconds=seconds)
    if given.load == "pace":
        return generator.pace(
            address, "load", partitions=given.partitions, size_bytes=size, seconds=seconds, rate=given.rate
        )
    return generator.consume(
        address, "load", partitions=given.partitions, count=_consume_count(given), seconds_max=seconds
    )


def _consume_count(given: argparse.Namespace) -> int:
    return int(min(given.seconds * 600e6, 4e9) / (given.size + 10))


class Sampler:
    """py-spy or perf on the running node, for a while from now on."""

    def __init__(self, tool: str, broker: Longhall, given: argparse.Namespace, out: Path) -> None:
        self._tool = tool
        self._out = out
        if tool == "pyspy":
            spy = shutil.which("py-spy", path=f"{_ROOT}/.venv/bin") or "py-spy"
            words = [spy, "record", "--pid", str(broker.pid), "--subprocesses", "--rate", "400", "--format", "raw"]
            words += ["--threads", "--nonblocking", "--output", str(out), "--duration", str(int(given.seconds) + 1)]
            words += ["--native"] if given.native else []
            # Native frames can only be read while the process is paused.
            words = [each for each in words if not (given.native and each == "--nonblocking")]
        else:
            pids = ",".join(str(each) for each in process.tree(broker.pid))
            words = ["perf", "record", "-q", "-e", "cpu-clock", "-F", "999", "-g", "-p", pids, "-o", str(out)]
            words += ["--", "sleep", str(given.seconds + 1)]
        self._process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        time.sleep(0.7)

    def finish(self, top: int) -> str:
        _, errors = self._process.communicate(timeout=120)
        if self._process.returncode != 0 or not self._out.exists():
            return f"{self._tool} failed: {errors[-1500:]}"
        if self._tool == "pyspy":
            return summary(self._out.read_text(), top)
        words = [
            "perf",
            "report",
            "-i",
            str(self._out),
            "--no-children",
            "-g",
            "none",
            "--stdio",
            "--sort",
            "comm,dso,symbol",
        ]
        said = subprocess.run(words, capture_output=True, text=True, check=False).stdout
        return "\n".join([line for line in said.splitlines() if line and not line.startswith("#")][:top])


def summary(stacks: str, top: int) -> str:
    """Own and total share of each function, from collapsed stacks (`a;b;c count`), by process and thread."""
    own: Counter[str] = Counter()
    total: Counter[str] = Counter()
    threads: Counter[str] = Counter()
    for line in stacks.splitlines():
        stack, _, count = line.rpartition(" ")
        frames = stack.split(";")
        threads[" ".join(each for each in frames if each.startswith(("process ", "thread ")))[:100]] += int(count)
        frames = [each for each in frames if not each.startswith(("process ", "thread "))] or ["(no frame)"]
        own[frames[-1]] += int(count)
        for frame in set(frames):
            total[frame] += int(count)
    samples = sum(own.values()) or 1
    parts = [f"{samples} samples"]
    for title, counter in (("thread", threads), ("own", own), ("total", total)):
        parts.append(f"\n{title:>8}")
        parts += [f"{count / samples:8.1%} {name}" for name, count in counter.most_common(top)]
    return "\n".join(parts)


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="bench profile", description=__doc__.split("\n")[0])
    parser.add_argument("load", choices=LOADS, nargs="?", default="produce")
    parser.add_argument("--tool", choices=TOOLS, default="pyspy")
    parser.add_argument("--native", action="store_true", help="py-spy: C frames too (for compiled rooms; slower)")
    parser.add_argument("--size", type=int, default=1024, help="bytes of a record")
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--partitions", type=int, default=1)
    parser.add_argument("--linger", type=int, default=5, help="milliseconds")
    parser.add_argument("--run", type=int, default=1, help="messages to a partition before the next one, for produce")
    parser.add_argument("--rate", type=float, default=50_000.0, help="messages a second, for pace")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a setting of the client")
    parser.add_argument("--top", type=int, default=25, help="lines of each table")
    given = parser.parse_args(arguments)
    _RESULTS.mkdir(exist_ok=True)
    stem = _RESULTS / f"profile-{given.load}-{time.strftime('%H%M%S')}"
    calls = stem.with_suffix(".pstats")
    before = [str(COMMAND.with_name("python")), "-m", "cProfile", "-o", str(calls)] if given.tool == "cprofile" else []
    with Longhall(before=before) as broker:
        topics.create(broker.address, "load", partitions=given.partitions)
        if given.load == "consume":
            count = _consume_count(given)
            generator.fill(broker.address, "load", partitions=given.partitions, size_bytes=given.size, count=count)
        used = process.usage(broker.pid)
        sampler = (
            Sampler(given.tool, broker, given, stem.with_suffix(f".{given.tool}")) if given.tool in TOOLS[:2] else None
        )
        run = apply_load(broker, given)
        cpu, busiest = process.usage(broker.pid).since(used)
        said = sampler.finish(given.top) if sampler else ""
        weight = process.memory(broker.pid)
        broker.stop()
    print(said)
    if given.tool == "cprofile":
        pstats.Stats(str(calls)).sort_stats("tottime").print_stats(given.top)
    wall = run.seconds
    print(
        f"\n{given.load}: {run.messages_per_second:,.0f} messages/s, {run.megabytes_per_second:,.1f} MB/s, {wall:.2f} s"
    )
    for side, cores, thread in (
        ("broker", cpu / wall, busiest / wall),
        ("client", run.cpu_seconds / wall, run.busiest_thread_seconds / wall),
    ):
        print(f"{side}: {cores:.2f} cores, busiest thread {thread:.2f}")
    print(f"resident {weight.resident_bytes / 1e6:.0f} MB, PSS {weight.proportional_bytes / 1e6:.0f} MB")
    if run.latencies_ns:
        print({key: round(value, 3) for key, value in latency_figures(run.latencies_ns).items()})

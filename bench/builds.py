"""Two builds of Longhall side by side: is anything slower than it was?

    python -m bench builds --before DIRECTORY [--rounds N] [--benches kafka,sqs,cluster]

DIRECTORY is a checkout of the other build, set up by its own `./dev setup`. Both builds are up at once, and every line
of a bench is measured with the one and right afterwards with the other, in turns. The output has the median of each
build and the median of the ratios within a round, of messages a second and of messages for each second of the brokers'
processor time, which other tenants of the machine disturb less. Lines at half of a build's own rate are left out: two
builds would not do the same work.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

from bench import cluster, kafka, sqs
from bench.cluster_steps import Sizes
from bench.peers.longhall import Longhall
from bench.peers.sqs import PEERS as SQS_PEERS
from bench.peers.sqs import LonghallQueues
from bench.peers.trio import TRIOS, LonghallTrio

BENCHES: Final = ("kafka", "sqs", "cluster")
NAMES: Final = ["before", "longhall"]
PACED: Final = "half"
SLOWER: Final = 0.97
CONNECTIONS: Final = 32


class Line(NamedTuple):
    """One line of one bench: the rates of the earlier build and of this one, by round."""

    name: str
    before: list[float]
    now: list[float]

    def ratio(self) -> float:
        """Above 1 where this build is faster."""
        return statistics.median(now / before for before, now in zip(self.before, self.now, strict=True))


def run(bench: str, program: Path, rounds: int, seconds: float) -> list[Line]:
    """Run all rounds of one bench."""
    result: Any
    if bench == "kafka":
        kafka.PEERS["before"] = partial(Longhall, name="before", program=program)
        result = kafka.run(NAMES, rounds=rounds, seconds=seconds, fill_share=0.5)
    elif bench == "sqs":
        SQS_PEERS["before"] = partial(LonghallQueues, name="before", program=program)
        result = sqs.run(NAMES, rounds=rounds, seconds=seconds, connections=CONNECTIONS, warm_seconds=2.0)
    else:
        TRIOS["before"] = partial(LonghallTrio, name="before", program=program)
        result = cluster.run(NAMES, ["rounds"], rounds=rounds, seconds=seconds, fill_share=1.0, sizes=Sizes())
    return _lines(bench, result["rounds"])


def _lines(bench: str, rounds: Sequence[dict[str, dict[str, dict[str, float]]]]) -> list[Line]:
    lines: list[Line] = []
    for name, figures in rounds[0].items():
        if PACED in name or "messages" not in figures.get("longhall", {}):
            continue
        before, now = ([one[name][build] for one in rounds] for build in NAMES)
        rates = ([one["messages_per_second"] for one in build] for build in (before, now))
        lines.append(Line(f"{bench} {name}", *rates))
        works = ([one["messages"] / max(one["broker_cpu_seconds"], 0.01) for one in build] for build in (before, now))
        lines.append(Line(f"{bench} {name}, by processor time", *works))
    return lines


def _show(lines: Sequence[Line]) -> None:
    for line in lines:
        slower = "  slower" if line.ratio() < SLOWER else ""
        before, now = statistics.median(line.before), statistics.median(line.now)
        print(f"  {line.name:45} {before:14,.1f} {now:14,.1f} {line.ratio():6.3f}{slower}", flush=True)


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="bench builds", description=__doc__.split("\n")[0])
    parser.add_argument("--before", type=Path, required=True, help="a checkout of the other build, set up")
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--seconds", type=float, default=2.0, help="length of one measurement")
    parser.add_argument("--benches", default=",".join(BENCHES), help="separated by commas (default: %(default)s)")
    given = parser.parse_args(arguments)
    unknown = set(given.benches.split(",")) - set(BENCHES)
    program = given.before.resolve() / ".venv" / "bin" / "longhall"
    if unknown or not program.exists():
        sys.exit(f"not a bench: {', '.join(sorted(unknown))}" if unknown else f"{given.before} is not set up")
    for bench in given.benches.split(","):
        _show(run(bench, program, given.rounds, given.seconds))

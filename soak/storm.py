"""`python -m soak cluster`: three nodes, three ZooKeeper servers, clients of all kinds, and one fault after another.

It ends with 0 when no acknowledged message was lost, no message of an idempotent producer is duplicated or out of
order, no transaction is torn for read-committed readers, no group of a FIFO queue was out of order, no leased or
settled message was delivered again, and at the end all nodes have the same messages. On a violation it prints the
violation, keeps the directory with the logs, and ends with 1. For every fault it prints for how long sends were
refused.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from soak import replicas
from soak.cluster import NODES, WAIT_SECONDS, ZOOKEEPER, Cluster, name_of
from soak.cluster_load import EARLY, KAFKA, SQS, ClusterLoad, read_early, send_early
from soak.field import Field, enclosed, is_enclosed
from soak.kill import Say, Violation
from soak.nemesis import Nemesis

CALM_SECONDS: Final = 2.0  # Between two faults, with every replica in sync.
RECKON_EVERY: Final = 5
RESET_SECONDS_MAX: Final = 3.0  # The longest refusal of sends after connections were reset,
SILENT_SECONDS_MAX: Final = 8.0  # and after any loss of a leader. Reported, not enforced: see docs.
FIRST: Final = 1
KILLS: Final = {"kill_the_leader": RESET_SECONDS_MAX, "pause_the_leader": SILENT_SECONDS_MAX}


class Storm:
    """A cluster, its clients and its nemesis."""

    def __init__(
        self, home: Path, seed: int, say: Say, *, servers: int = 3, session_ms: int = 6000, wings: bool = False
    ) -> None:
        field = Field([*(name_of(one) for one in NODES), ZOOKEEPER]) if is_enclosed() else None
        self.cluster = Cluster(home, session_ms=session_ms, field=field, servers=servers)
        if field is None:
            self.cluster.keep_doors()
        self._seed = seed
        self._say = say
        self._wings = wings
        self.rounds = 0
        self.refused: dict[str, list[float]] = {}  # By fault: the durations for which sends were refused.

    def run(self, seconds: float, faults: Sequence[str] = ()) -> ClusterLoad:
        """Run the faults; raises Violation. With `faults`, only those."""
        cluster = self.cluster
        self._begin_alone()
        cluster.start(first=FIRST)
        load = ClusterLoad(cluster, wings=self._wings)
        nemesis = Nemesis(cluster, self._seed, self._say)
        nemesis.on_damage = lambda: self._judge(load.reckon())
        if nemesis.left_out:
            self._say(f"left out, because this system does not permit it: {', '.join(nemesis.left_out)}")
        if faults:
            nemesis.menu = [one for one in nemesis.menu if one.__name__ in faults]
        load.start()
        try:
            deadline = time.monotonic() + seconds
            while time.monotonic() < deadline:
                self._one_round(load, nemesis)
            complaints = load.finish()
            for line in load.hung:
                self._say(f"left behind: {line}")
            self._judge(
                [
                    *complaints,
                    *(["messages sent before the cluster existed are missing"] * (read_early(cluster) != EARLY)),
                ]
            )
            self._compare()
            self._is_nobodys_alone()
        except Violation:
            raise
        except (AssertionError, RuntimeError) as failure:  # A wait has timed out.
            raise Violation(str(failure)) from failure
        finally:
            load.stop()
        return load

    def _begin_alone(self) -> None:
        """Create the hall with a single node before it becomes a cluster."""
        lone = self.cluster.make(FIRST, alone=True)
        lone.launch()
        lone.wait_ready(WAIT_SECONDS)
        send_early(lone.bootstrap)
        assert lone.stop() == 0

    def _is_nobodys_alone(self) -> None:
        """Check that a directory of a cluster cannot be opened without the cluster."""
        lone = self.cluster.make(FIRST, alone=True)
        lone.launch()
        if lone.wait_end() != 1 or "--coordinator" not in lone.log_tail():
            raise Violation(f"a directory of the cluster was opened alone\n{lone.log_tail()}")

    def _one_round(self, load: ClusterLoad, nemesis: Nemesis) -> None:
        self.rounds += 1
        fault = nemesis.next()
        self._say(f"round {self.rounds}: {fault.__doc__}")
        began = time.monotonic()
        fault()
        load.wait_for_more()
        self.cluster.wait_in_sync()
        load.wait_for_more()
        healed = time.monotonic()
        refused = {kind: load.pulse.longest_gap(kind, began) for kind in (KAFKA, SQS)}
        self._say(
            f"  all in sync after {healed - began:.1f} s; sends were refused for {refused[KAFKA]:.2f} s (Kafka) and "
            f"{refused[SQS]:.2f} s (SQS)" + _about_bound(fault.__name__, max(refused.values()))
        )
        self.refused.setdefault(fault.__name__, []).append(max(refused.values()))
        self._judge(load.failures())
        if self.rounds % RECKON_EVERY == 0:
            self._judge(load.reckon())
        time.sleep(CALM_SECONDS)

    def _compare(self) -> None:
        """Stop all nodes and compare their directories."""
        leader = self.cluster.leader()
        # The leader is stopped last, so that the others have all its entries.
        for number in sorted(NODES, key=lambda one: one == leader):
            code = self.cluster.nodes[number].stop()
            if code:
                raise Violation(f"node {number} ended with {code} after SIGTERM\n{self.cluster.log_tails()}")
        homes = {number: node.data for number, node in self.cluster.nodes.items()}
        self._judge(replicas.compare(homes))
        wings = sorted({wing.name for home in homes.values() for wing in (home / "wings").glob("*")})
        for wing in wings:
            self._judge(replicas.compare({number: home / "wings" / wing for number, home in homes.items()}))

    def keep(self) -> None:
        """Copy the contents of disks that end with the field."""
        for number, node in self.cluster.nodes.items():
            node.kill()
            if self.cluster.field is not None and node.data.exists():
                shutil.copytree(node.data, self.cluster.home / f"kept{number}")

    def _judge(self, complaints: Sequence[str]) -> None:
        if complaints:
            raise Violation("\n  ".join([*complaints, "the ends of the logs:", self.cluster.log_tails()]))


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="soak cluster", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--faults", default="", help="only these faults, by name, separated by commas")
    parser.add_argument("--servers", type=int, default=3, help="number of ZooKeeper servers: 1 or 3")
    parser.add_argument("--session-ms", type=int, default=6000)
    parser.add_argument("--directory", type=Path, help="directory of all files; not removed")
    parser.add_argument("--wings", action="store_true", help="place everything possible in wings")
    parser.add_argument("--loopback", action="store_true", help="no private network: no cuts, no full disks")
    given = parser.parse_args(arguments)
    if not given.loopback and not is_enclosed():
        command = enclosed([sys.executable, "-m", "soak", "cluster", *arguments])
        if command:
            sys.stdout.flush()
            os.execvp(command[0], command)
    home = given.directory or Path(tempfile.mkdtemp(prefix="longhall-storm-"))
    home.mkdir(parents=True, exist_ok=True)
    storm = Storm(home, given.seed, _say, servers=given.servers, session_ms=given.session_ms, wings=given.wings)
    try:
        load = storm.run(given.minutes * 60, [one for one in given.faults.split(",") if one])
    except Violation as violation:
        storm.keep()
        _say(f"VIOLATION (seed {given.seed}, kept in {home}):\n  {violation}")
        return 1
    finally:
        storm.cluster.stop()
    counts = ", ".join(f"{count} {what}" for what, count in load.counts().items())
    _say(f"{storm.rounds} rounds: {counts}; all verified, and the same on all nodes")
    for fault, seconds in sorted(storm.refused.items()):
        said = f"sends were refused for {max(seconds):.2f} s at most"
        _say(f"  {fault.replace('_', ' ')}, {len(seconds)} times: {said}{_about_bound(fault, max(seconds))}")
    if given.directory is None:
        shutil.rmtree(home, ignore_errors=True)
    return 0


def _about_bound(fault: str, seconds: float) -> str:
    bound = KILLS.get(fault, seconds)
    return "" if seconds <= bound else f" -- LATE: at most {bound:.0f} s are allowed"


def _say(line: str) -> None:
    print(line, flush=True)

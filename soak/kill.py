"""Kills the node under load, restarts it, and checks everything that it acknowledged.

`python -m soak.kill --rounds 100` ends with 0 when nothing acknowledged was missing, out of order, duplicated or half
visible after any of the rounds. On a violation it prints the violation, keeps the data directory and the node's log,
and ends with 1. The seed decides when each kill comes. After every seventh kill there is also a clean stop.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from soak.history import History, Told
from soak.load import Load
from soak.node import Node
from soak.reckoning import reckon

LOAD_SECONDS: Final = (0.1, 1.2)
CLEAN_EVERY: Final = 7  # One clean stop after so many kills: the start after it is tested too.
Say = Callable[[str], None]


class Violation(AssertionError):
    """The node broke a guarantee."""


class Soak:
    """A node, its load and its history over many restarts. `meanwhile` changes the data while the node is dead."""

    def __init__(
        self, directory: Path, seed: int, say: Say = print, meanwhile: Callable[[Path], None] | None = None
    ) -> None:
        self.node = Node(directory / "data")
        self.history = History()
        self._random = random.Random(seed)
        self._say = say
        self._meanwhile = meanwhile
        self.kills = 0
        self.clean_stops = 0

    def run(self, rounds: int) -> Told:
        """Run all rounds and the final check; raises Violation. Returns what was acknowledged."""
        self.node.start()
        try:
            load = Load(self.node.bootstrap, self.history)
            load.start()
            for number in range(1, rounds + 1):
                self._one_round(f"kill {number}/{rounds}", self.node.kill)
                self.kills += 1
                if number % CLEAN_EVERY == 0:
                    self._one_round("clean stop", self._stop)
                    self.clean_stops += 1
                self._judge(load.failures())
            load.finish()
            return self._at_rest()
        finally:
            self.node.kill()

    def _stop(self) -> None:
        code = self.node.stop()
        self._judge([f"the node ended with {code} after SIGTERM"] if code else [])

    def _one_round(self, name: str, end: Callable[[], None]) -> None:
        time.sleep(self._random.uniform(*LOAD_SECONDS))
        end()
        told = self.history.snapshot()
        if self._meanwhile is not None:
            self._meanwhile(self.node.data)
        began = time.monotonic()
        self.node.start()
        ready_seconds = time.monotonic() - began
        seen, complaints = reckon(self.node.bootstrap, told)
        self._judge(complaints)
        self._say(f"{name}: {told.count()} acknowledged, {seen.count()} read, ready in {ready_seconds:.2f} s")

    def _at_rest(self) -> Told:
        """Check the final state, when all clients have stopped: transactions without an answer are wholly visible
        or not at all.
        """
        told = self.history.snapshot()
        _, complaints = reckon(self.node.bootstrap, told, at_rest=True)
        self._judge(complaints)
        return told

    def _judge(self, complaints: list[str]) -> None:
        if complaints:
            raise Violation("\n  ".join([*complaints, "the end of the node's log:", self.node.log_tail()]))


def main() -> int:
    parser = argparse.ArgumentParser(prog="soak.kill", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--rounds", type=int, default=100, help="number of kills")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--directory", type=Path, help="data directory; not removed")
    arguments = parser.parse_args()
    directory = arguments.directory or Path(tempfile.mkdtemp(prefix="longhall-kill-"))
    directory.mkdir(parents=True, exist_ok=True)
    soak = Soak(directory, arguments.seed, lambda line: print(line, flush=True))
    try:
        told = soak.run(arguments.rounds)
    except Violation as violation:
        print(f"VIOLATION (seed {arguments.seed}, kept in {directory}):\n  {violation}", file=sys.stderr)
        return 1
    print(
        f"{soak.kills} kills and {soak.clean_stops} clean stops: {told.count()} records and "
        f"{len(told.transactions)} transactions, all verified"
    )
    if arguments.directory is None:
        shutil.rmtree(directory)
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Kill the node under load, start it again, and hold it to everything it acknowledged.

`python -m soak.kill --rounds 100` ends with 0 when nothing acknowledged was missing, out of order, doubled or half
visible after any of the rounds. On a violation it says what, keeps the data directory and the node's log, and ends
with 1. The seed decides when each kill comes.
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

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from soak import history, load
from soak.history import History, Place, Seen, Told
from soak.load import PARTITIONS, TOPICS, Worker
from soak.node import Node

LOAD_SECONDS: Final = (0.1, 1.2)
READ_SECONDS_MAX: Final = 60.0
Say = Callable[[str], None]


class Violation(AssertionError):
    """The node broke a promise."""


class Soak:
    """A node, its load and its history over many lives."""

    def __init__(self, directory: Path, seed: int, say: Say = print) -> None:
        self.node = Node(directory / "data")
        self.history = History()
        self._random = random.Random(seed)
        self._say = say
        self._workers: list[Worker] = []

    def run(self, rounds: int) -> Told:
        """All the rounds and the last reckoning; raises Violation. Returns what was acknowledged."""
        self.node.start()
        try:
            self._make_topics()
            self._start_load()
            for number in range(1, rounds + 1):
                self._one_round(number, rounds)
            return self._at_rest()
        finally:
            self.node.kill()

    def _make_topics(self) -> None:
        admin = AdminClient({"bootstrap.servers": self.node.bootstrap})
        wanted = [NewTopic(topic, num_partitions=PARTITIONS, replication_factor=1) for topic in TOPICS]
        for future in admin.create_topics(wanted).values():
            future.result(30)

    def _start_load(self) -> None:
        at, book = self.node.bootstrap, self.history
        self._workers = [
            load.IdempotentWriter("i1", at, book),
            load.IdempotentWriter("i2", at, book),
            load.TransactionalWriter("t1", at, book),
            load.TransactionalWriter("t2", at, book),
            load.Carrier("c1", at, book),
            load.Committer("m1", at, book),
        ]
        for worker in self._workers:
            worker.start()

    def _one_round(self, number: int, rounds: int) -> None:
        time.sleep(self._random.uniform(*LOAD_SECONDS))
        self.node.kill()
        told = self.history.snapshot()
        began = time.monotonic()
        self.node.start()
        ready_seconds = time.monotonic() - began
        seen = read_until_all_is_there(self.node.bootstrap, told)
        self._judge(
            history.missing(told, seen)
            + history.repeated_or_out_of_order(seen)
            + history.half_visible(told, seen, at_rest=False)
            + history.behind(told, committed_offsets(self.node.bootstrap, [load.READERS, load.CARRIERS]))
        )
        failed = [f"{worker.name}: {worker.failure!r}" for worker in self._workers if worker.failure is not None]
        self._judge([f"a worker died: {line}" for line in failed])
        self._say(
            f"round {number}/{rounds}: {told.count()} acknowledged, {seen.count()} read, ready in {ready_seconds:.2f} s"
        )

    def _at_rest(self) -> Told:
        """Everybody stops; now even what had no answer must be all there or not at all."""
        for worker in self._workers:
            worker.finish()
        told = self.history.snapshot()
        seen = read_until_all_is_there(self.node.bootstrap, told)
        offsets = committed_offsets(self.node.bootstrap, [load.READERS, load.CARRIERS])
        carried = {place: offset for (group, place), offset in offsets.items() if group == load.CARRIERS}
        self._judge(
            [f"an idempotent producer was refused: {line}" for line in told.refused]
            + history.missing(told, seen)
            + history.repeated_or_out_of_order(seen)
            + history.half_visible(told, seen, at_rest=True)
            + history.carried_wrong(seen, load.PLAIN, load.TARGET, carried)
            + history.behind(told, offsets)
        )
        return told

    def _judge(self, complaints: list[str]) -> None:
        if complaints:
            raise Violation("\n  ".join([*complaints, "the end of the node's log:", self.node.log_tail()]))


def read_until_all_is_there(bootstrap: str, told: Told) -> Seen:
    """Read everything, and go on past the first end while something acknowledged is missing: an acknowledged commit may
    show a moment later, and a transaction that was open at the kill holds readers back until it ends."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reckoning",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
        }
    )
    places = [(topic, partition) for topic in TOPICS for partition in range(PARTITIONS)]
    records: dict[Place, dict[int, bytes]] = {place: {} for place in places}
    ended: set[Place] = set()
    deadline = time.monotonic() + READ_SECONDS_MAX
    try:
        consumer.assign([TopicPartition(topic, partition, 0) for topic, partition in places])
        while time.monotonic() < deadline:
            for message in consumer.consume(5000, 0.1):
                place = (message.topic(), message.partition())
                if message.error() is None:
                    records[place][message.offset()] = message.value()
                elif message.error().name() == "_PARTITION_EOF":
                    ended.add(place)
            if len(ended) == len(places) and not history.missing(told, Seen(records)):
                break
    finally:
        consumer.close()
    return Seen(records)


def committed_offsets(bootstrap: str, groups: list[str]) -> dict[tuple[str, Place], int]:
    found: dict[tuple[str, Place], int] = {}
    for group in groups:
        consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
        asked = [TopicPartition(load.PLAIN, partition) for partition in range(PARTITIONS)]
        for place in consumer.committed(asked, timeout=30):
            found[group, (place.topic, place.partition)] = max(place.offset, 0)
        consumer.close()
    return found


def main() -> int:
    parser = argparse.ArgumentParser(prog="soak.kill", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--directory", type=Path, help="where the data goes; kept afterwards")
    arguments = parser.parse_args()
    directory = arguments.directory or Path(tempfile.mkdtemp(prefix="longhall-kill-"))
    directory.mkdir(parents=True, exist_ok=True)
    try:
        told = Soak(directory, arguments.seed, lambda line: print(line, flush=True)).run(arguments.rounds)
    except Violation as violation:
        print(f"VIOLATION (seed {arguments.seed}, kept in {directory}):\n  {violation}", file=sys.stderr)
        return 1
    print(
        f"{arguments.rounds} kills: {told.count()} records and {len(told.transactions)} transactions, all accounted for"
    )
    if arguments.directory is None:
        shutil.rmtree(directory)
    return 0


if __name__ == "__main__":
    sys.exit(main())

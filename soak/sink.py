"""Runs a query through the sink while tasks, executors, its driver and the broker are killed.

`python -m soak.sink --rounds 20` ends with 0 when a reader of committed messages finds every message of the source
exactly once in the target, and never found a duplicate meanwhile. On a violation it prints the violation, keeps all
files, and ends with 1. The seed decides what is killed when. With `--steps` the driver, the broker and the committing
process are first killed after every step of a commit in turn. With `--master local-cluster[2,1,1024]` executors are
processes of their own.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import shutil
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from confluent_kafka import KafkaError, Message, Producer

from longhall.client.fetched_records import decode_fetched
from longhall.client.hall import Hall
from longhall.client.records import LATEST, READ_COMMITTED
from longhall.pipeline.blocking_client import BlockingClient
from longhall.pipeline.refusals import PipelineError
from soak.archive import at_random
from soak.kill import Say, Violation
from soak.node import Node
from soak.spark_driver import EXECUTORS, TASKS, Driver, Patience, has_executors

SOURCE: Final = "source"
TARGET: Final = "target"
PARTITIONS: Final = 3
ROUND_SECONDS: Final = (0.5, 5.0)
PROGRESS_SECONDS_MAX: Final = 1200.0
FAULTS: Final = (TASKS, EXECUTORS, "driver", "broker")
STEPS: Final = ("taken", "looked", "sent", "copied", "noted", "committed", "cleared")
COMMITTERS: Final = ("driver", "broker", "committer")


class Load:
    """Sends numbered messages, at a rate that the query can follow."""

    def __init__(self, bootstrap: str) -> None:
        self.acknowledged: set[bytes] = set()
        self.failures: list[str] = []
        self._bootstrap = bootstrap
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="load", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def finish(self) -> None:
        self._stopping.set()
        self._thread.join(600)

    def _run(self) -> None:
        settings = {"enable.idempotence": True, "message.timeout.ms": 0, "reconnect.backoff.max.ms": 200}
        producer = Producer({"bootstrap.servers": self._bootstrap, "log_level": 0, **settings})
        number = 0
        while not self._stopping.is_set():
            value = b"%d" % number
            producer.produce(SOURCE, value, key=value, partition=number % PARTITIONS, on_delivery=self._note)
            number += 1
            producer.poll(0)
            time.sleep(0.002)
        if producer.flush(500):
            self.failures.append("messages got no answer")

    def _note(self, error: KafkaError | None, message: Message) -> None:
        value = message.value()
        if error is None and isinstance(value, bytes):
            self.acknowledged.add(value)
        else:
            self.failures.append(f"the producer was refused: {error}")


class Sight:
    """The committed messages of a topic that were read so far; each read continues where the last one ended."""

    def __init__(self, topic: str) -> None:
        self.rows: Counter[bytes] = Counter()
        self._topic = topic
        self._positions = dict.fromkeys(range(PARTITIONS), 0)

    def look(self, bootstrap: str) -> Counter[bytes]:
        with BlockingClient(bootstrap) as conversation:
            conversation.ask(self._read)
        return self.rows

    async def _read(self, hall: Hall) -> None:
        for part in self._positions:
            found = await hall.records.list_offsets(self._topic, {part: LATEST}, isolation_level=READ_COMMITTED)
            while self._positions[part] < found[part].offset:
                offset = self._positions[part]
                opened = decode_fetched(await hall.records.fetch(self._topic, part, offset, max_wait_ms=0), offset)
                self.rows.update(record.value or b"" for record in opened.records)
                self._positions[part] = opened.next_offset


class SinkSoak:
    """A node, its load, and a query that is restarted as a service manager would."""

    def __init__(self, directory: Path, seed: int, master: str, say: Say = print) -> None:
        self.kills: Counter[str] = Counter()
        self.node = Node(directory / "data")
        self._directory = directory
        self._driver = Driver(directory / "query.log")
        self._orders = directory / "orders"
        self._master = master
        self._random = random.Random(seed)
        self._say = say
        self._target = Sight(TARGET)

    def run(self, faults: Iterable[str]) -> int:
        """Inject all faults in turn, then process the rest; returns the number of messages."""
        self.node.start()
        with BlockingClient(self.node.bootstrap) as conversation:
            conversation.ask(_make_topics)
        load = Load(self.node.bootstrap)
        load.start()
        try:
            self._start("continuous")
            seen = self._progress(0)
            for number, fault in enumerate(faults, 1):
                self._hurt(fault)
                self.kills[fault] += 1
                seen = self._progress(seen)
                self._say(f"{number}: killed {fault}; {seen} rows written so far")
            load.finish()
        finally:
            self._driver.kill()
        self._finish()
        return self._reckon(load)

    # Faults of the query.

    def _start(self, how: str) -> None:
        command = [sys.executable, "-m", "soak.sink_query", self.node.bootstrap, SOURCE, TARGET]
        command += [str(self._directory / "checkpoint"), self._master, how, str(self._orders)]
        self._driver.start(command)

    def _keep_running(self) -> None:
        """Restart the query if it has ended, as a service manager would."""
        if not self._driver.running:
            self._start("continuous")

    def _hurt(self, fault: str) -> None:
        step, _, who = fault.rpartition(" ")
        if step:
            self._order(step, who)
            return
        time.sleep(self._random.uniform(*ROUND_SECONDS))
        if fault == "driver":
            self._driver.kill()
            self._start("continuous")
        elif fault == "broker":
            self.node.kill()
            time.sleep(self._random.uniform(0.0, 1.0))
            self.node.start()
        else:
            patience = Patience(PROGRESS_SECONDS_MAX)
            while not self._driver.kill_workers(fault, self._random):  # Between two workers there may be none.
                self._keep_running()
                if not patience.wait(0.1):
                    raise Violation(f"there are no {fault} to kill:\n{self._driver.tail()}")

    def _order(self, step: str, who: str) -> None:
        """Kill a process after a step of the next commit, and restart it."""
        patience = Patience(PROGRESS_SECONDS_MAX)
        self._write_order(step, who)
        while self._orders.exists():
            if not self._driver.running:  # It had not recovered from the previous fault.
                self._write_order(step, who)
            if not patience.wait(0.02):
                raise Violation(f"no commit reached its step {step}:\n{self._driver.tail()}")
        if who == "broker":
            self.node.wait_end()
            self.node.start()
        elif who == "driver":
            self._driver.kill()

    def _write_order(self, step: str, who: str) -> None:
        self._keep_running()
        victims = {"driver": f"-{self._driver.group} 0", "broker": f"-{self.node.pid}", "committer": "0"}
        fresh = self._orders.with_suffix(".fresh")
        fresh.write_text(f"{step} {victims[who]}")
        fresh.rename(self._orders)

    def _finish(self) -> None:
        for _ in range(5):
            self._start("once")
            code = self._driver.wait(PROGRESS_SECONDS_MAX)
            self._driver.kill()
            if code == 0:
                return
        raise Violation(f"the query does not end:\n{self._driver.tail()}")

    # Checks.

    def _progress(self, before: int) -> int:
        """Wait until there are more rows than before; no row may be there twice."""
        patience = Patience(PROGRESS_SECONDS_MAX)
        while True:
            with contextlib.suppress(PipelineError):  # A slow broker is asked again.
                self._target.look(self.node.bootstrap)
            rows = self._target.rows
            twice = [row for row, count in rows.items() if count > 1]
            if twice:
                raise Violation(f"{len(twice)} rows were written more than once, {twice[:10]}")
            if len(rows) > before:
                return len(rows)
            self._keep_running()
            if not patience.wait(0.5):
                raise Violation(f"the query does not write any more:\n{self._driver.tail()}")

    def _reckon(self, load: Load) -> int:
        source, target = (Sight(topic).look(self.node.bootstrap) for topic in (SOURCE, TARGET))
        problems = load.failures[:10]
        if missing := load.acknowledged - set(source):
            problems.append(f"{len(missing)} acknowledged messages are not in the source")
        if source != target:
            lost, doubled = source - target, target - source
            problems.append(f"{lost.total()} rows are missing {list(lost)[:10]}, {doubled.total()} too many")
        if problems:
            raise Violation("\n  ".join(problems))
        return source.total()


async def _make_topics(hall: Hall) -> None:
    for topic in (SOURCE, TARGET):
        await hall.topics.create(topic, partitions=PARTITIONS)


def main() -> int:
    parser = argparse.ArgumentParser(prog="soak.sink", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--rounds", type=int, default=20, help="number of random kills")
    parser.add_argument("--seconds", type=float, default=0.0, help="kill at random for so many seconds instead")
    parser.add_argument("--steps", action="store_true", help="first kill after every step of a commit")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--master", default="local[2,4]", help="Spark's master; tasks are tried four times")
    parser.add_argument("--directory", type=Path, help="data directory; not removed")
    arguments = parser.parse_args()
    directory = arguments.directory or Path(tempfile.mkdtemp(prefix="longhall-sink-"))
    directory.mkdir(parents=True, exist_ok=True)
    soak = SinkSoak(directory, arguments.seed, arguments.master, lambda line: print(line, flush=True))
    # In local mode there are no executors; the Python workers, which do the writing, are killed as tasks.
    kinds = [fault for fault in FAULTS if fault != EXECUTORS or has_executors(arguments.master)]
    began = time.monotonic()

    def faults() -> Iterator[str]:
        if arguments.steps:
            yield from (f"{step} {who}" for step in STEPS for who in COMMITTERS)
        yield from at_random(kinds, arguments.seed, arguments.rounds, arguments.seconds)

    try:
        rows = soak.run(faults())
    except Violation as violation:
        print(f"VIOLATION (seed {arguments.seed}, kept in {directory}):\n  {violation}", file=sys.stderr)
        return 1
    finally:
        soak.node.kill()
    print(f"killed {dict(soak.kills)} in {time.monotonic() - began:.0f} s: {rows} rows, each written once")
    if arguments.directory is None:
        shutil.rmtree(directory)
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""A query writes through the sink while tasks, executors, its driver and the broker are killed at random.

`python -m soak.sink --rounds 20` ends with 0 when a reader of committed messages finds every message of the source
exactly once in the target, and never found one twice on the way. On a violation it says which, keeps everything, and
ends with 1. The seed decides what is killed when. With `--master local-cluster[2,1,512]` executors are processes of
their own.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Final

import psutil
from confluent_kafka import KafkaError, Message, Producer

from longhall.client.committed import open_fetched
from longhall.client.hall import Hall
from longhall.client.records import LATEST, READ_COMMITTED
from longhall.pipeline.conversation import Conversation
from soak.kill import Say, Violation
from soak.node import Node

SOURCE: Final = "source"
TARGET: Final = "target"
PARTITIONS: Final = 3
ROUND_SECONDS: Final = (0.5, 5.0)
PROGRESS_SECONDS_MAX: Final = 300.0
FAULTS: Final = ("tasks", "executors", "driver", "broker")
_WORKERS: Final = {"tasks": "pyspark.daemon", "executors": "CoarseGrainedExecutorBackend"}


class Load:
    """Numbered messages, at a pace that the query can keep."""

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
        self._thread.join(200)

    def _run(self) -> None:
        settings = {"enable.idempotence": True, "message.timeout.ms": 170_000, "reconnect.backoff.max.ms": 200}
        producer = Producer({"bootstrap.servers": self._bootstrap, "log_level": 0, **settings})
        number = 0
        while not self._stopping.is_set():
            value = b"%d" % number
            producer.produce(SOURCE, value, key=value, partition=number % PARTITIONS, on_delivery=self._note)
            number += 1
            producer.poll(0)
            time.sleep(0.002)
        if producer.flush(150):
            self.failures.append("messages stayed without an answer")

    def _note(self, error: KafkaError | None, message: Message) -> None:
        value = message.value()
        if error is None and isinstance(value, bytes):
            self.acknowledged.add(value)
        else:
            self.failures.append(f"the producer was refused: {error}")


class SinkSoak:
    """A node, its load, and a query that a service manager would start again."""

    def __init__(self, directory: Path, seed: int, master: str, say: Say = print) -> None:
        self.kills = dict.fromkeys(FAULTS, 0)
        self.node = Node(directory / "data")
        self._directory = directory
        self._log = directory / "query.log"
        self._master = master
        self._random = random.Random(seed)
        self._say = say
        self._process: subprocess.Popen[bytes] | None = None

    def run(self, faults: list[str]) -> int:
        """All the faults in turn, then everything that is left; returns how many messages there were."""
        self.node.start()
        with Conversation(self.node.bootstrap) as conversation:
            conversation.ask(_make_topics)
        load = Load(self.node.bootstrap)
        load.start()
        try:
            self._start("continuous")
            seen = self._progress(0)
            for number, fault in enumerate(faults, 1):
                time.sleep(self._random.uniform(*ROUND_SECONDS))
                self._hurt(fault)
                self.kills[fault] += 1
                seen = self._progress(seen)
                self._say(f"{number}/{len(faults)}: killed {fault}; {seen} rows are there so far")
            load.finish()
        finally:
            self._kill_driver()
        self._finish()
        return self._reckon(load)

    # What is done to the query

    def _start(self, how: str) -> None:
        command = [sys.executable, "-m", "soak.sink_query", self.node.bootstrap, SOURCE, TARGET]
        command += [str(self._directory / "checkpoint"), self._master, how]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )

    def _kill_driver(self) -> None:
        """The driver, its Java and all that they have started."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def _hurt(self, fault: str) -> None:
        if fault == "driver":
            self._kill_driver()
            self._start("continuous")
        elif fault == "broker":
            self.node.kill()
            time.sleep(self._random.uniform(0.0, 1.0))
            self.node.start()
        elif self._process is not None:
            with contextlib.suppress(psutil.Error):
                for child in psutil.Process(self._process.pid).children(recursive=True):
                    with contextlib.suppress(psutil.Error):
                        if any(_WORKERS[fault] in word for word in child.cmdline()):
                            child.kill()

    def _finish(self) -> None:
        for _ in range(5):
            self._start("once")
            assert self._process is not None
            try:
                if self._process.wait(PROGRESS_SECONDS_MAX) == 0:
                    return
            except subprocess.TimeoutExpired:
                self._kill_driver()
        raise Violation(f"the query does not come to its end:\n{self._tail()}")

    # What must hold

    def _progress(self, before: int) -> int:
        """Wait until more is there than before; nothing may be there twice."""
        deadline = time.monotonic() + PROGRESS_SECONDS_MAX
        while True:
            rows = self._rows(TARGET)
            twice = [row for row, count in rows.items() if count > 1]
            if twice:
                raise Violation(f"{len(twice)} rows are there more than once, {twice[:10]}")
            if len(rows) > before:
                return len(rows)
            if self._process is not None and self._process.poll() is not None:
                self._start("continuous")  # It may have given up; a service manager would do this.
            if time.monotonic() > deadline:
                raise Violation(f"the query writes no more:\n{self._tail()}")
            time.sleep(0.5)

    def _reckon(self, load: Load) -> int:
        source, target = self._rows(SOURCE), self._rows(TARGET)
        problems = load.failures[:10]
        if missing := load.acknowledged - set(source):
            problems.append(f"{len(missing)} acknowledged messages are not in the source")
        if source != target:
            lost, doubled = source - target, target - source
            problems.append(f"{lost.total()} rows are missing {list(lost)[:10]}, {doubled.total()} too many")
        if problems:
            raise Violation("\n  ".join(problems))
        return source.total()

    def _rows(self, topic: str) -> Counter[bytes]:
        """What a reader of committed messages gets."""

        async def read(hall: Hall) -> Counter[bytes]:
            rows: Counter[bytes] = Counter()
            for part in range(PARTITIONS):
                end = (await hall.records.list_offsets(topic, {part: LATEST}, isolation_level=READ_COMMITTED))[part]
                offset = 0
                while offset < end.offset:
                    opened = open_fetched(await hall.records.fetch(topic, part, offset, max_wait_ms=0), offset)
                    offset = opened.next_offset
                    rows.update(record.value or b"" for record in opened.records)
            return rows

        with Conversation(self.node.bootstrap) as conversation:
            return conversation.ask(read)

    def _tail(self) -> str:
        return self._log.read_text(errors="replace")[-3000:] if self._log.exists() else ""


async def _make_topics(hall: Hall) -> None:
    for topic in (SOURCE, TARGET):
        await hall.topics.create(topic, partitions=PARTITIONS)


def main() -> int:
    parser = argparse.ArgumentParser(prog="soak.sink", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--rounds", type=int, default=20, help="how many kills")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--master", default="local[2,4]", help="Spark's master; tasks are tried four times")
    parser.add_argument("--directory", type=Path, help="where the data goes; kept afterwards")
    arguments = parser.parse_args()
    directory = arguments.directory or Path(tempfile.mkdtemp(prefix="longhall-sink-"))
    directory.mkdir(parents=True, exist_ok=True)
    soak = SinkSoak(directory, arguments.seed, arguments.master, lambda line: print(line, flush=True))
    chance = random.Random(arguments.seed)
    # In one process there are no executors; Python's workers, which do the writing, are killed as tasks.
    faults = [fault for fault in FAULTS if fault != "executors" or not arguments.master.startswith("local[")]
    try:
        rows = soak.run([chance.choice(faults) for _ in range(arguments.rounds)])
    except Violation as violation:
        print(f"VIOLATION (seed {arguments.seed}, kept in {directory}):\n  {violation}", file=sys.stderr)
        return 1
    finally:
        soak.node.kill()
    print(f"killed {soak.kills}: {rows} rows, each there once")
    if arguments.directory is None:
        shutil.rmtree(directory)
    return 0


if __name__ == "__main__":
    sys.exit(main())

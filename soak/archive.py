"""Archives a topic while producers write to it, and kills tasks, executors, the driver and the broker meanwhile.

`python -m soak.archive --rounds 20` ends with 0 when the archive has every acknowledged message exactly once and in
order, when the broker never truncated what the manifest did not have, and when a replay of the archive, killed as well,
has the same bytes, keys, headers and timestamps. On a violation it prints the violation, keeps all files, and ends with
1. The seed decides what is killed when. With `--master local-cluster[2,1,1024]` executors are processes of their own.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from confluent_kafka import KafkaError, Message, Producer

from longhall.client.fetched_records import decode_fetched
from longhall.client.hall import Hall
from longhall.client.records import EARLIEST, LATEST
from longhall.pipeline.archive.manifest import first_break
from longhall.pipeline.archive.manifest_log import ManifestLog
from longhall.pipeline.archive.parquet import read_piece
from longhall.pipeline.archive.storage import Storage
from longhall.pipeline.blocking_client import BlockingClient
from longhall.pipeline.refusals import PipelineError
from soak.kill import Say, Violation
from soak.node import COMMAND, Node
from soak.spark_driver import EXECUTORS, SETTINGS, TASKS, Driver, Patience, has_executors

TOPIC: Final = "archived"
REPLAYED: Final = "replayed"
PARTITIONS: Final = 2
ROUND_SECONDS: Final = (2.0, 6.0)
STARTED_SECONDS_MAX: Final = 1200.0
CONFIGS: Final = {
    "longhall.archive": "required",
    "segment.bytes": "100000",
    "retention.bytes": "100000",
    "retention.ms": "-1",
}
DRIVER: Final = "driver"
BROKER: Final = "broker"
FAULTS: Final = (TASKS, EXECUTORS, DRIVER, BROKER)
SPARK: Final = tuple(word for name, value in SETTINGS.items() for word in ("--spark", f"{name}={value}"))
REPLAY_RATE: Final = 4000  # Messages a second, slow enough that kills fall into the replay.

Row = tuple[int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]


class Load:
    """One idempotent producer; records each acknowledgement with its partition and offset."""

    def __init__(self, bootstrap: str) -> None:
        self.acknowledged: dict[tuple[int, int], bytes] = {}
        self.failures: list[str] = []
        self._bootstrap = bootstrap
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="load", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def finish(self) -> None:
        self._stopping.set()
        self._thread.join(600)
        if self._thread.is_alive():
            self.failures.append("the producer does not end")

    def _run(self) -> None:
        producer = Producer(
            {
                "bootstrap.servers": self._bootstrap,
                "enable.idempotence": True,
                "linger.ms": 5,
                "message.timeout.ms": 0,  # No time-out: the broker comes back.
                "reconnect.backoff.max.ms": 200,
                "log_level": 0,
            }
        )
        number = 0
        while not self._stopping.is_set():
            producer.produce(
                TOPIC,
                b"%d:" % number + b"." * 400,
                key=None if number % 3 == 0 else b"key-%d" % (number % 17),
                headers=[("number", b"%d" % number), ("none", None)] if number % 2 else None,
                partition=number % PARTITIONS,
                on_delivery=self._note,
            )
            number += 1
            producer.poll(0)
            time.sleep(0.001)
        if producer.flush(500):
            self.failures.append("messages got no answer")

    def _note(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            partition, offset, value = message.partition(), message.offset(), message.value()
            assert partition is not None
            assert offset is not None
            assert isinstance(value, bytes)
            self.acknowledged[partition, offset] = value
        else:
            self.failures.append(f"the producer was refused: {error}")


class ArchiveSoak:
    """A node, its load, an archiver and the thread that checks them."""

    def __init__(
        self,
        directory: Path,
        seed: int,
        say: Say = print,
        round_seconds: tuple[float, float] = ROUND_SECONDS,
        master: str = "local[2]",
    ) -> None:
        self.looks = 0  # Number of comparisons between the start of the log and the manifest.
        self._round_seconds = round_seconds
        self._master = master
        self.place = directory / "archive"
        self.node = Node(directory / "data", options=["--set", "cleaner.interval_ms=100"])
        self.kills = dict.fromkeys(FAULTS, 0)
        self.acknowledged: dict[tuple[int, int], bytes] = {}
        self._driver = Driver(directory / "archiver.log")
        self._random = random.Random(seed)
        self._say = say
        self._violations: list[str] = []
        self._watching = threading.Event()

    def run(self, faults: Iterable[str]) -> int:
        """Inject all faults in turn; returns the number of acknowledged messages."""
        self.node.start()
        self._make_topics()
        load = Load(self.node.bootstrap)
        load.start()
        self._start_archiver()
        watcher = threading.Thread(target=self._watch, name="watcher", daemon=True)
        watcher.start()
        try:
            self._wait_for_progress()
            for number, fault in enumerate(faults, 1):
                time.sleep(self._random.uniform(*self._round_seconds))
                self._hurt(fault, self._start_archiver)
                self._say(f"{number}: killed {fault}; {len(load.acknowledged)} acknowledged so far")
                self._wait_for_progress()
            self._driver.kill()  # While messages still arrive: another driver archives the rest.
            self.kills[DRIVER] += 1
            load.finish()
        finally:
            self._driver.kill()
            self._watching.set()
            watcher.join(60)
        self._violations += load.failures
        self._judge()
        self.acknowledged = load.acknowledged
        return len(load.acknowledged)

    def command(self, job: str, *words: str) -> list[str]:
        """A job of the pipeline over the topic, as a command line."""
        common = ("--bootstrap", self.node.bootstrap, "--topics", TOPIC, "--master", self._master)
        return [*COMMAND, "pipeline", job, *common, *SPARK, *words]

    def _start_archiver(self) -> None:
        self._driver.start(self.command("archive", "--to", str(self.place), "--continuous", "--interval", "0.2"))

    def _hurt(self, fault: str, start: Callable[[], None]) -> None:
        """Kill; restart what a service manager would restart."""
        if fault == DRIVER:
            self._driver.kill()
            start()
        elif fault == BROKER:
            self.node.kill()
            time.sleep(self._random.uniform(0.0, 1.0))
            self.node.start()
        else:
            patience = Patience(STARTED_SECONDS_MAX)
            while not self._driver.kill_workers(fault, self._random):  # Between two workers there may be none.
                if not self._driver.running:
                    start()
                if not patience.wait(0.1):
                    raise Violation(f"there are no {fault} to kill:\n{self._driver.tail()}")
        self.kills[fault] += 1

    def _make_topics(self) -> None:
        async def make(hall: Hall) -> None:
            await hall.topics.create(TOPIC, partitions=PARTITIONS, configs=CONFIGS)
            await hall.topics.create(REPLAYED, partitions=PARTITIONS, configs={"retention.ms": "-1"})

        with BlockingClient(self.node.bootstrap) as conversation:
            conversation.ask(make)

    # Checks during the run.

    def _ends(self) -> dict[int, int]:
        manifest = ManifestLog(Storage(str(self.place)), TOPIC).latest() if self.place.exists() else None
        return manifest.ends() if manifest is not None else {}

    def _begins(self, conversation: BlockingClient) -> dict[int, int]:
        async def ask(hall: Hall) -> dict[int, int]:
            found = await hall.records.list_offsets(TOPIC, dict.fromkeys(range(PARTITIONS), EARLIEST))
            return {part: each.offset for part, each in found.items()}

        return conversation.ask(ask)

    def _watch(self) -> None:
        """Compare the log with the manifest. The start of the log is read first, so that the manifest is never the
        older one.
        """
        while not self._watching.wait(0.1):
            try:
                with BlockingClient(self.node.bootstrap, patience_ms=1000) as conversation:
                    while not self._watching.wait(0.05):
                        begins = self._begins(conversation)
                        ends = self._ends()
                        self.looks += 1
                        for part, begin in begins.items():
                            if begin > ends.get(part, 0):
                                self._violations.append(f"partition {part} begins at {begin}, archived are {ends}")
            except PipelineError:
                continue  # The broker is down.

    def _wait_for_progress(self) -> None:
        before = sum(self._ends().values())
        patience = Patience(STARTED_SECONDS_MAX)
        while sum(self._ends().values()) <= before:
            self._judge()
            if not self._driver.running:
                self._start_archiver()  # It may have given up while the broker was down.
                time.sleep(1)
            if not patience.wait(0.2):
                raise Violation(f"the archive does not grow:\n{self._driver.tail()}")

    def _judge(self) -> None:
        if self._violations:
            raise Violation("\n  ".join(self._violations[:20]))

    # Checks at the end.

    def reckon(self) -> dict[int, list[Row]]:
        """Compare the finished archive with the acknowledgements; returns its rows by partition."""
        storage = Storage(str(self.place))
        manifest = ManifestLog(storage, TOPIC).latest()
        assert manifest is not None
        rows: dict[int, list[Row]] = {}
        with BlockingClient(self.node.bootstrap) as conversation:
            begins = self._begins(conversation)
        for part in range(PARTITIONS):
            pieces = manifest.pieces(part)
            if first_break(pieces) is not None or pieces[0].base != 0:
                self._violations.append(f"the manifest of partition {part} has a hole")
            found: dict[int, bytes] = {}
            rows[part] = []
            for piece in pieces:
                for batch in read_piece(storage, piece):
                    for row in batch.to_pylist():
                        if row["offset"] in found or not piece.base <= row["offset"] < piece.end:
                            self._violations.append(
                                f"{part}/{row['offset']} is in the archive twice or in the wrong file"
                            )
                        found[row["offset"]] = row["value"]
                        rows[part].append(_row(row))
            if len(set(found.values())) != len(found):
                self._violations.append(f"partition {part} has a message at two offsets")
            if list(found) != sorted(found):
                self._violations.append(f"partition {part} is out of order")
            for (partition, offset), value in self.acknowledged.items():
                if partition == part and found.get(offset) != value:
                    self._violations.append(
                        f"{part}/{offset} was acknowledged, and the archive has {found.get(offset)!r}"
                    )
            if begins[part] == 0:
                self._violations.append(f"partition {part} was never truncated: the run has tested nothing")
        self._judge()
        return rows

    def replay(self, faults: Iterable[str]) -> None:
        """Replay the archive with all faults in turn, then to its end."""
        words = ("--from", str(self.place), "--to", REPLAYED)

        def start() -> None:
            self._driver.start(self.command("replay", *words, "--rate", str(REPLAY_RATE)))

        try:
            for number, fault in enumerate(faults, 1):
                if not self._driver.running:
                    start()
                self._wait_for_replay()
                self._hurt(fault, start)
                self._say(f"replay, {number}: killed {fault}; {self._replayed()} offsets so far")
        finally:
            self._driver.kill()
        self.finish("replay", *words)

    def finish(self, job: str, *words: str) -> None:
        """Run a job without faults to its end."""
        self._driver.start(self.command(job, *words, "--once"))
        code = self._driver.wait(STARTED_SECONDS_MAX)
        self._driver.kill()
        if code != 0:
            raise Violation(f"{job} ended with {code}:\n{self._driver.tail()}")

    def _wait_for_replay(self) -> None:
        """Wait until the replay sends, or has nothing more to send."""
        before = self._replayed()
        patience = Patience(STARTED_SECONDS_MAX)
        while self._driver.running and self._replayed() <= before and patience.wait(0.1):
            pass
        time.sleep(self._random.uniform(0.0, self._round_seconds[1]))

    def _replayed(self) -> int:
        async def ask(hall: Hall) -> int:
            found = await hall.records.list_offsets(REPLAYED, dict.fromkeys(range(PARTITIONS), LATEST))
            return sum(each.offset for each in found.values())

        with BlockingClient(self.node.bootstrap, patience_ms=600_000) as conversation:
            return conversation.ask(ask)

    def compare_replay(self, rows: dict[int, list[Row]]) -> None:
        """Hold what was replayed to the archive."""
        with BlockingClient(self.node.bootstrap) as conversation:
            for part, wanted in rows.items():
                if _content(conversation, REPLAYED, part) != wanted:
                    self._violations.append(f"the replay of partition {part} has other messages than the archive")
        self._judge()


def _row(row: dict[str, Any]) -> Row:
    headers = tuple((each["key"], each["value"]) for each in row["headers"] or [])
    return int(row["timestamp"].timestamp() * 1000 + 0.5), row["key"], row["value"], headers


def _content(conversation: BlockingClient, topic: str, partition: int) -> list[Row]:
    """What a reader of committed messages gets."""

    async def read(hall: Hall) -> list[Row]:
        found: list[Row] = []
        offset = 0
        end = (await hall.records.list_offsets(topic, {partition: LATEST}))[partition].offset
        while offset < end:
            opened = decode_fetched(await hall.records.fetch(topic, partition, offset, max_wait_ms=100), offset)
            offset = opened.next_offset
            found += [(each.timestamp_ms, each.key, each.value, tuple(each.headers)) for each in opened.records]
        return found

    return conversation.ask(read)


def run_all(soak: ArchiveSoak, faults: Iterable[str], finish: Callable[[], None], again: Callable[[], None]) -> int:
    """Run the whole soak: faults, then `finish` archives the rest and `again` replays the archive."""
    try:
        acknowledged = soak.run(faults)
        finish()
        rows = soak.reckon()
        again()
        soak.compare_replay(rows)
        return acknowledged
    finally:
        soak.node.kill()


def at_random(kinds: list[str], seed: int, rounds: int, seconds: float = 0.0) -> Iterator[str]:
    """So many faults, or as many as the time allows."""
    chance = random.Random(seed)
    deadline = time.monotonic() + seconds
    while rounds > 0 if not seconds else time.monotonic() < deadline:
        rounds -= 1
        yield chance.choice(kinds)


def main() -> int:
    parser = argparse.ArgumentParser(prog="soak.archive", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--rounds", type=int, default=20, help="number of kills")
    parser.add_argument("--seconds", type=float, default=0.0, help="kill for so many seconds instead")
    parser.add_argument("--replay-rounds", type=int, default=4, help="number of kills of the replay")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--master", default="local[2]", help="Spark's master")
    parser.add_argument("--directory", type=Path, help="data directory; not removed")
    arguments = parser.parse_args()
    directory = arguments.directory or Path(tempfile.mkdtemp(prefix="longhall-archive-"))
    directory.mkdir(parents=True, exist_ok=True)
    seed = arguments.seed
    soak = ArchiveSoak(directory, seed, lambda line: print(line, flush=True), master=arguments.master)
    kinds = [fault for fault in FAULTS if fault != EXECUTORS or has_executors(arguments.master)]
    began = time.monotonic()
    try:
        acknowledged = run_all(
            soak,
            at_random(kinds, seed, arguments.rounds, arguments.seconds),
            lambda: soak.finish("archive", "--to", str(soak.place)),
            lambda: soak.replay(at_random(kinds, seed + 1, arguments.replay_rounds)),
        )
    except Violation as violation:
        print(f"VIOLATION (seed {seed}, kept in {directory}):\n  {violation}", file=sys.stderr)
        return 1
    print(
        f"killed {soak.kills} in {time.monotonic() - began:.0f} s, checked the truncation {soak.looks} times: "
        f"{acknowledged} acknowledged messages, all archived once and replayed alike"
    )
    if arguments.directory is None:
        shutil.rmtree(directory)
    return 0


if __name__ == "__main__":
    sys.exit(main())

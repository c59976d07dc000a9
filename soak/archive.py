"""Archive a topic while it is produced to, and kill executors, the driver and the broker in between.

`python -m soak.archive --rounds 20` ends with 0 when the archive has every acknowledged message exactly once and in
order, when the broker never truncated what the manifest did not have, and when a replay of the archive has the same
bytes, keys, headers and timestamps. On a violation it says what, keeps everything, and ends with 1. The seed decides
what is killed when.
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
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import psutil
from confluent_kafka import KafkaError, Message, Producer

from longhall.client.committed import open_fetched
from longhall.client.hall import Hall
from longhall.client.records import EARLIEST, LATEST
from longhall.pipeline.archive.ledger import Ledger
from longhall.pipeline.archive.manifest import first_break
from longhall.pipeline.archive.parquet import read_piece
from longhall.pipeline.archive.storage import Storage
from longhall.pipeline.conversation import Conversation
from longhall.pipeline.refusals import PipelineError
from soak.kill import Say, Violation
from soak.node import COMMAND, Node

TOPIC: Final = "archived"
REPLAYED: Final = "replayed"
PARTITIONS: Final = 2
ROUND_SECONDS: Final = (2.0, 6.0)
STARTED_SECONDS_MAX: Final = 240.0
CONFIGS: Final = {
    "longhall.archive": "required",
    "segment.bytes": "100000",
    "retention.bytes": "100000",
    "retention.ms": "-1",
}
FAULTS: Final = ("executors", "driver", "broker")

Row = tuple[int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]


class Load:
    """One idempotent producer; what was acknowledged is written down with its place."""

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
        self._thread.join(180)
        if self._thread.is_alive():
            self.failures.append("the producer does not come to its end")

    def _run(self) -> None:
        producer = Producer(
            {
                "bootstrap.servers": self._bootstrap,
                "enable.idempotence": True,
                "linger.ms": 5,
                "message.timeout.ms": 170_000,
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
        if producer.flush(150):
            self.failures.append("messages stayed without an answer")

    def _note(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            partition, offset, value = message.partition(), message.offset(), message.value()
            assert partition is not None
            assert offset is not None
            assert isinstance(value, bytes)
            self.acknowledged[partition, offset] = value
        else:
            self.failures.append(f"the producer was refused: {error}")


class Archiver:
    """The command, as people run it."""

    def __init__(self, bootstrap: str, place: Path, log: Path) -> None:
        self._command = [
            *COMMAND,
            "pipeline",
            "archive",
            "--bootstrap",
            bootstrap,
            "--topics",
            TOPIC,
            "--to",
            str(place),
        ]
        self._command += ["--continuous", "--interval", "0.2", "--master", "local[2]"]
        self._command += ["--spark", "spark.driver.extraJavaOptions=-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"]
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def kill(self) -> None:
        """The driver and its Java; executors in local mode live in that."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def kill_executors(self) -> None:
        """The Python workers that read and write."""
        if self._process is None or self._process.poll() is not None:
            return
        for child in psutil.Process(self._process.pid).children(recursive=True):
            with contextlib.suppress(psutil.Error):
                if "pyspark.daemon" in child.cmdline():
                    child.kill()


class ArchiveSoak:
    """A node, its load, an archiver and whoever watches them."""

    def __init__(
        self, directory: Path, seed: int, say: Say = print, round_seconds: tuple[float, float] = ROUND_SECONDS
    ) -> None:
        self._round_seconds = round_seconds
        self.place = directory / "archive"
        self.node = Node(directory / "data", options=["--set", "cleaner.interval_ms=100"])
        self.kills = dict.fromkeys(FAULTS, 0)
        self.acknowledged: dict[tuple[int, int], bytes] = {}
        self._log = directory / "archiver.log"
        self._random = random.Random(seed)
        self._say = say
        self._violations: list[str] = []
        self._watching = threading.Event()

    def run(self, faults: list[str]) -> int:
        """All the faults in turn; returns how many messages were acknowledged."""
        self.node.start()
        self._make_topics()
        load = Load(self.node.bootstrap)
        load.start()
        archiver = Archiver(self.node.bootstrap, self.place, self._log)
        archiver.start()
        watcher = threading.Thread(target=self._watch, name="watcher", daemon=True)
        watcher.start()
        try:
            self._wait_for_progress(archiver)
            for number, fault in enumerate(faults, 1):
                time.sleep(self._random.uniform(*self._round_seconds))
                self._hurt(fault, archiver)
                self.kills[fault] += 1
                self._say(f"{number}/{len(faults)}: killed the {fault}; {len(load.acknowledged)} acknowledged so far")
                self._wait_for_progress(archiver)
            load.finish()
        finally:
            archiver.kill()
            self._watching.set()
            watcher.join(60)
        self._violations += load.failures
        self._judge()
        self.acknowledged = load.acknowledged
        return len(load.acknowledged)

    def _hurt(self, fault: str, archiver: Archiver) -> None:
        if fault == "executors":
            archiver.kill_executors()
        elif fault == "driver":
            archiver.kill()
            archiver.start()
        else:
            self.node.kill()
            time.sleep(self._random.uniform(0.0, 1.0))
            self.node.start()

    def _make_topics(self) -> None:
        async def make(hall: Hall) -> None:
            await hall.topics.create(TOPIC, partitions=PARTITIONS, configs=CONFIGS)
            await hall.topics.create(REPLAYED, partitions=PARTITIONS, configs={"retention.ms": "-1"})

        with Conversation(self.node.bootstrap) as conversation:
            conversation.ask(make)

    # What must hold all the time

    def _ends(self) -> dict[int, int]:
        manifest = Ledger(Storage(str(self.place)), TOPIC).latest() if self.place.exists() else None
        return manifest.ends() if manifest is not None else {}

    def _begins(self, conversation: Conversation) -> dict[int, int]:
        async def ask(hall: Hall) -> dict[int, int]:
            found = await hall.records.list_offsets(TOPIC, dict.fromkeys(range(PARTITIONS), EARLIEST))
            return {part: each.offset for part, each in found.items()}

        return conversation.ask(ask)

    def _watch(self) -> None:
        """The beginning of the log is asked first, so that the manifest is never the older of the two."""
        while not self._watching.wait(0.1):
            try:
                with Conversation(self.node.bootstrap, patience_ms=1000) as conversation:
                    while not self._watching.wait(0.05):
                        begins = self._begins(conversation)
                        ends = self._ends()
                        for part, begin in begins.items():
                            if begin > ends.get(part, 0):
                                self._violations.append(f"partition {part} begins at {begin}, archived are {ends}")
            except PipelineError:
                continue  # The broker is dead just now.

    def _wait_for_progress(self, archiver: Archiver) -> None:
        before = sum(self._ends().values())
        deadline = time.monotonic() + STARTED_SECONDS_MAX
        while sum(self._ends().values()) <= before:
            self._judge()
            if not archiver.running:
                archiver.start()  # It may have given up on a broker that was away; a service manager would do this.
                time.sleep(1)
            if time.monotonic() > deadline:
                tail = self._log.read_text(errors="replace")[-3000:] if self._log.exists() else ""
                raise Violation(f"the archive does not grow:\n{tail}")
            time.sleep(0.2)

    def _judge(self) -> None:
        if self._violations:
            raise Violation("\n  ".join(self._violations[:20]))

    # What must hold in the end

    def reckon(self) -> dict[int, list[Row]]:
        """Hold the finished archive to what was acknowledged; returns what it has, by partition."""
        storage = Storage(str(self.place))
        manifest = Ledger(storage, TOPIC).latest()
        assert manifest is not None
        rows: dict[int, list[Row]] = {}
        with Conversation(self.node.bootstrap) as conversation:
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
                            self._violations.append(f"{part}/{row['offset']} is there twice or in the wrong file")
                        found[row["offset"]] = row["value"]
                        rows[part].append(_row(row))
            if list(found) != sorted(found):
                self._violations.append(f"partition {part} is out of order")
            for (partition, offset), value in self.acknowledged.items():
                if partition == part and found.get(offset) != value:
                    self._violations.append(
                        f"{part}/{offset} was acknowledged, and the archive has {found.get(offset)!r}"
                    )
            if begins[part] == 0:
                self._violations.append(f"partition {part} was never truncated: nothing was tried")
        self._judge()
        return rows

    def compare_replay(self, rows: dict[int, list[Row]]) -> None:
        """Hold what was replayed to the archive."""
        with Conversation(self.node.bootstrap) as conversation:
            for part, wanted in rows.items():
                if _content(conversation, REPLAYED, part) != wanted:
                    self._violations.append(f"the replay of partition {part} has other messages than the archive")
        self._judge()


def _row(row: dict[str, Any]) -> Row:
    headers = tuple((each["key"], each["value"]) for each in row["headers"] or [])
    return int(row["timestamp"].timestamp() * 1000 + 0.5), row["key"], row["value"], headers


def _content(conversation: Conversation, topic: str, partition: int) -> list[Row]:
    """What a reader of committed messages gets."""

    async def read(hall: Hall) -> list[Row]:
        found: list[Row] = []
        offset = 0
        end = (await hall.records.list_offsets(topic, {partition: LATEST}))[partition].offset
        while offset < end:
            opened = open_fetched(await hall.records.fetch(topic, partition, offset, max_wait_ms=100), offset)
            offset = opened.next_offset
            found += [(each.timestamp_ms, each.key, each.value, tuple(each.headers)) for each in opened.records]
        return found

    return conversation.ask(read)


def _run_command(*arguments: str) -> None:
    done = subprocess.run([*COMMAND, "pipeline", *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Violation(f"{arguments[0]} ended with {done.returncode}: {done.stderr[-2000:]}")


def run_all(soak: ArchiveSoak, faults: list[str], finish: Callable[[], None], again: Callable[[], None]) -> int:
    """The whole of it: faults, then `finish` archives the rest and `again` replays the archive."""
    try:
        acknowledged = soak.run(faults)
        finish()
        rows = soak.reckon()
        again()
        soak.compare_replay(rows)
        return acknowledged
    finally:
        soak.node.kill()


def main() -> int:
    parser = argparse.ArgumentParser(prog="soak.archive", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--rounds", type=int, default=20, help="how many kills")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--directory", type=Path, help="where the data goes; kept afterwards")
    arguments = parser.parse_args()
    directory = arguments.directory or Path(tempfile.mkdtemp(prefix="longhall-archive-"))
    directory.mkdir(parents=True, exist_ok=True)
    soak = ArchiveSoak(directory, arguments.seed, lambda line: print(line, flush=True))
    chance = random.Random(arguments.seed)
    faults = [chance.choice(FAULTS) for _ in range(arguments.rounds)]

    def options() -> list[str]:
        return ["--bootstrap", soak.node.bootstrap, "--topics", TOPIC]

    try:
        acknowledged = run_all(
            soak,
            faults,
            lambda: _run_command("archive", *options(), "--to", str(soak.place), "--once"),
            lambda: _run_command("replay", *options(), "--from", str(soak.place), "--to", REPLAYED),
        )
    except Violation as violation:
        print(f"VIOLATION (seed {arguments.seed}, kept in {directory}):\n  {violation}", file=sys.stderr)
        return 1
    print(f"killed {soak.kills}: {acknowledged} acknowledged messages, all archived once and replayed alike")
    if arguments.directory is None:
        shutil.rmtree(directory)
    return 0


if __name__ == "__main__":
    sys.exit(main())

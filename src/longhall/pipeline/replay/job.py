"""The replay: what a source has, through Spark's filters, into a topic or a queue.

    sources    the partitions of an archive or of topics, from where an earlier run has come to    driver
    read       their messages, chosen by time, key and headers                                     tasks
    where      what SQL leaves; with a timing, all partitions merged by time into one task         Spark
    play       transactions of messages and progress                                               tasks

The name of a replay is its memory: started again with the same name and words, it goes on where it was.
"""

from __future__ import annotations

import hashlib
import pickle
import threading
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, final

from longhall.client.groups import Committed
from longhall.client.hall import Hall
from longhall.client.security import security_of_environment
from longhall.pipeline.archive.manifest import Piece
from longhall.pipeline.archive.manifest_log import ManifestLog
from longhall.pipeline.archive.opening import ArchiveKeys, PieceReader, check_readable
from longhall.pipeline.archive.parquet import COLUMNS
from longhall.pipeline.archive.storage import Storage
from longhall.pipeline.blocking_client import BlockingClient
from longhall.pipeline.job_control import Say, Show, Wait
from longhall.pipeline.options import Subscription
from longhall.pipeline.partition_reader import committed_read_task
from longhall.pipeline.plan import Range
from longhall.pipeline.refusals import PipelineError, one_line_reason, too_many_failures
from longhall.pipeline.replay.pace import Pace
from longhall.pipeline.replay.player import SPARK_SCHEMA, Play, play_rows, play_sources, reached
from longhall.pipeline.replay.selection import Selection
from longhall.pipeline.replay.source import SPARK_SCHEMA as ROWS
from longhall.pipeline.replay.source import Source, read_sources
from longhall.pipeline.subscription_metadata import SubscriptionMetadata

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TRIES_MAX: Final = 3
LOOK_S: Final = 2.0


class Options(NamedTuple):
    """What to replay, and where to. Without `archive` the topics are read from the hall."""

    bootstrap: str
    topics: tuple[str, ...]
    to: str
    archive: str = ""
    selection: Selection = Selection()
    where: str = ""
    speed: float = 0.0
    rate: float = 0.0
    name: str = ""
    keys: ArchiveKeys | None = None  # For an archive with ciphertext.

    @property
    def fingerprint(self) -> str:
        """A digest of what is replayed, without its pace."""
        words = (self.archive, self.topics, self.to, tuple(self.selection), self.where)
        return hashlib.sha256(repr(words).encode()).hexdigest()[:16]


class Done(NamedTuple):
    """The result of one run."""

    name: str
    messages: int


@final
class Replayer:
    """One run. `wait` sleeps and says whether to stop."""

    def __init__(self, spark: SparkSession, options: Options, say: Say, show: Show, wait: Wait) -> None:
        self._spark = spark
        self._options = options
        self._name = options.name or f"{options.topics[0]}-to-{options.to}-{options.fingerprint[:8]}"
        self._say = say
        self._show = show
        self._wait = wait

    def run(self) -> Done:
        with BlockingClient(self._options.bootstrap) as client:
            play = self._play(client)
            sent = tries = reached_before = 0
            while True:
                sources = list(self._sources(client, play))
                reached_now = sum(source.start for source in sources)
                tries = tries if reached_now == reached_before else 0  # Who gets on may go on failing.
                reached_before = reached_now
                try:
                    sent += self._send(client, play, sources)
                except Exception as failed:  # A worker died; what it had not committed is sent by the next.
                    if self._wait(0.0):
                        return Done(self._name, sent)
                    tries += 1
                    if one_line_reason(failed) is not None:
                        raise
                    if tries == TRIES_MAX:
                        raise too_many_failures(failed, tries) from failed
                    self._say("a task failed; the replay goes on where it was")
                    continue
                self._finish(client, play, sources)
                return Done(self._name, sent)

    def _play(self, client: BlockingClient) -> Play:
        options = self._options
        topics = SubscriptionMetadata(client, Subscription(names=(options.to,))).topics()
        if not options.archive and options.to in options.topics:
            raise PipelineError(f"{options.to} cannot be replayed into itself; it would never end")
        partitions = len(topics[options.to].leaders)
        return Play(
            name=self._name,
            fingerprint=options.fingerprint,
            bootstrap=options.bootstrap,
            target=options.to,
            target_partitions=partitions,
            keeps_partitions=False,
            pace=Pace(options.speed, options.rate),
            security=security_of_environment(),
        )

    # Sources

    def _sources(self, client: BlockingClient, play: Play) -> Iterator[Source]:
        options = self._options
        if options.archive:
            storage = Storage(options.archive)
            for topic in options.topics:
                manifest = ManifestLog(storage, topic).latest()
                if manifest is None:
                    raise PipelineError(f"there is no archive of {topic} at {storage.name}")
                check_readable(manifest, options.keys)
                for number in manifest.ends():
                    start = self._start(client, play, topic, number)
                    topic_id = bytes.fromhex(manifest.topic_id)
                    reader = PieceReader(options.archive, topic, topic_id, number, options.keys)
                    yield self._archived(reader, start, manifest.pieces(number))
            return
        survey = SubscriptionMetadata(client, Subscription(names=options.topics), read_committed=True)
        found = survey.topics()
        first, last = survey.earliest(found), survey.latest(found)
        for name, each in found.items():
            for number in each.leaders:
                start = max(first[name][number], self._start(client, play, name, number))
                end = last[name][number]
                work = committed_read_task(options.bootstrap, each, Range(name, number, start, end), COLUMNS)
                yield Source(name, number, start, end, options.selection, work=work)

    def _archived(self, reader: PieceReader, start: int, pieces: list[Piece]) -> Source:
        selection = self._options.selection
        left = tuple(piece for piece in pieces if piece.end > start and selection.may_be_in(piece))
        end = pieces[-1].end if pieces else 0
        return Source(reader.topic, reader.partition, start, end, selection, reader=reader, pieces=left)

    def _start(self, client: BlockingClient, play: Play, topic: str, number: int) -> int:
        """The offset to start at, or the progress: a task skips what an open transaction is still sending."""

        async def ask(hall: Hall) -> int:
            return await reached(hall, play, play.group(topic, number))

        return client.ask(ask)

    # Sending

    def _send(self, client: BlockingClient, play: Play, sources: list[Source]) -> int:
        todo = [source for source in sources if source.end > source.start and (source.work or source.pieces)]
        if not todo:
            return 0
        partitions = max(source.partition for source in sources) + 1
        tasks = 1 if self._options.speed else min(len(todo), self._spark.sparkContext.defaultParallelism)
        pace = Pace(self._options.speed, self._options.rate / tasks)
        play = play._replace(keeps_partitions=play.target_partitions >= partitions, pace=pace)
        if self._options.where or self._options.speed:
            played = self._rows(todo).mapInArrow(partial(play_rows, play), SPARK_SCHEMA)
        else:
            played = self._listed(todo).mapInArrow(partial(play_sources, play), SPARK_SCHEMA)
        outcome: list[Any] = []

        def work() -> None:
            try:
                outcome.append(sum(row.sent for row in played.collect()))
            except Exception as failure:
                outcome.append(failure)

        worker = threading.Thread(target=work, name="replay", daemon=True)
        worker.start()
        total = sum(source.end - source.start for source in todo)
        while worker.is_alive():
            worker.join(LOOK_S)
            now = [self._start(client, play, source.topic, source.partition) for source in todo]
            done = sum(max(0, at - source.start) for at, source in zip(now, todo, strict=True))
            self._show(min(done, total), total)
        if isinstance(outcome[0], Exception):
            raise outcome[0]
        return int(outcome[0])

    def _listed(self, sources: list[Source]) -> DataFrame:
        """A row and a task for every source."""
        rows = [(bytearray(pickle.dumps(each)),) for each in sources]
        return self._spark.createDataFrame(self._spark.sparkContext.parallelize(rows, len(rows)), "source binary")

    def _rows(self, sources: list[Source]) -> DataFrame:
        """The messages as a table: every partition in order in its own task, or all of them by time in one task."""
        from pyspark.errors import AnalysisException, ParseException
        from pyspark.sql import Window
        from pyspark.sql import functions as f

        rows = self._listed(sources).mapInArrow(read_sources, ROWS)
        if self._options.where:
            try:
                rows = rows.where(self._options.where)
                _ = rows.schema
            except (AnalysisException, ParseException) as failure:
                said = next(line for line in str(failure).splitlines() if line.strip())
                raise PipelineError(f"--where is not understood: {said}") from None
        if self._options.speed:
            before = (
                Window.partitionBy("topic", "partition").orderBy("offset").rowsBetween(Window.unboundedPreceding, 0)
            )
            names = rows.columns
            # A message that is older than its forerunner goes out with it, so that no order is lost.
            rows = rows.withColumn("due", f.max("timestamp").over(before)).repartition(1)
            rows = rows.sortWithinPartitions("due", "topic", "partition", "offset").select(*names)
        return rows

    def _finish(self, client: BlockingClient, play: Play, sources: list[Source]) -> None:
        """Commit the ends when everything is sent, so that filtered messages are not read again."""

        async def commit(hall: Hall) -> None:
            for source in sources:
                if source.end > source.start:
                    ends = {(play.target, 0): Committed(source.end, -1, play.fingerprint)}
                    await hall.groups.commit(play.group(source.topic, source.partition), ends)

        client.ask(commit)


def replay(spark: SparkSession, options: Options, say: Say, show: Show, wait: Wait = lambda seconds: False) -> Done:
    """Replay messages. Raises PipelineError."""
    if not options.topics:
        raise PipelineError("no topic was named; say --topics a,b")
    return Replayer(spark, options, say, show, wait).run()

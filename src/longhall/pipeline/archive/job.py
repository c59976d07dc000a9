"""The archiver: in rounds, new messages are written to files, added to the manifest, and released for deletion.

    plan      ranges behind the manifest's ends, up to the last committed message        driver
    write     each range from its leader into files, whole or not at all                 tasks
    publish   the next version of the manifest names them                                driver
    tell      the group longhall.archive commits the ends: the broker may truncate       driver

After a crash between any two steps the next run continues from the manifest: files that no manifest names are
recognised or removed, and the ends are committed again. Files are never changed, so no message is in the archive twice.
Sealed messages are archived as ciphertext, with the wrapped data keys in the manifest (`opening`).
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, final

import msgspec

from longhall.client.groups import Committed, Place
from longhall.client.hall import Hall
from longhall.names import ARCHIVE_GROUP, SEAL_KEYS, STORED_FORM
from longhall.pipeline.archive.manifest import ArchiveManifest, Piece, extended, merged, to_merge, without_retired
from longhall.pipeline.archive.manifest_log import ManifestLog
from longhall.pipeline.archive.parquet import COLUMNS, FILE_BYTES_MAX
from longhall.pipeline.archive.plan import next_round
from longhall.pipeline.archive.storage import Storage
from longhall.pipeline.archive.tasks import MergeTask, WriteTask, run_task
from longhall.pipeline.blocking_client import BlockingClient
from longhall.pipeline.job_control import Say, Show, Wait
from longhall.pipeline.options import Offsets, Subscription
from longhall.pipeline.partition_reader import committed_read_task
from longhall.pipeline.plan import Range
from longhall.pipeline.refusals import PipelineError, one_line_reason, too_many_failures
from longhall.pipeline.subscription_metadata import SubscriptionMetadata, Topic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROUND_TRIES_MAX: Final = 3
PIECES_A_CORE: Final = 2  # In one round, so that a slow task does not leave the other cores idle.
RETIRED_MS: Final = 3_600_000
INTERVAL_S: Final = 10.0


class Options(NamedTuple):
    """What to archive, and where to."""

    bootstrap: str
    topics: tuple[str, ...]
    to: str
    once: bool = True
    allow_loss: bool = False
    merge: bool = True
    interval_s: float = INTERVAL_S
    file_bytes_max: int = FILE_BYTES_MAX
    opens: bool = False  # Sealed messages are archived in clear, as brokers give them to other consumers.


@final
class Done:
    """The counts of one run so far."""

    def __init__(self) -> None:
        self.messages = 0
        self.files = 0
        self.bytes = 0
        self.merged = 0
        self.swept = 0
        self.lost = 0


@final
class Archiver:
    """One run over some topics. `say` prints a line, `show` the progress; `wait` sleeps and says whether to stop."""

    def __init__(self, spark: SparkSession, options: Options, say: Say, show: Show, wait: Wait | None = None) -> None:
        if not options.topics:
            raise PipelineError("no topic was named; say --topics a,b")
        self.done = Done()
        self._context = spark.sparkContext
        self._options = options
        self._say = say
        self._show = show
        self._wait = wait or _sleep
        self._storage = Storage(options.to)
        self._ledgers = {topic: ManifestLog(self._storage, topic) for topic in options.topics}
        self._manifests: dict[str, ArchiveManifest] = {}
        self._told: dict[Place, int] = {}
        self._seal_keys: dict[str, str] = {}  # By topic: its data keys, wrapped. Archived beside what they have sealed.
        self._has_stored_form = False
        self._silent: set[str] = set()  # Topics that another archive releases.

    def run(self) -> Done:
        """Run until everything that existed at the start is archived, or until `wait` says to stop. Raises
        PipelineError.
        """
        with BlockingClient(self._options.bootstrap) as client:
            survey = SubscriptionMetadata(client, Subscription(names=self._options.topics), read_committed=True)
            topics = survey.topics()
            self._note_keys(client, topics)
            self._storage.check()
            self._claim(topics)
            self._listen(client, topics)
            self._tell(client, topics)
            until = survey.latest(topics)
            total = self._behind(until) if self._options.once else 0
            while True:
                worked = self._round(client, survey, topics, until)
                if worked:
                    self._tell(client, topics)
                    self._show(self.done.messages, total)
                elif self._options.once:
                    break
                if self._wait(0.0 if worked else self._options.interval_s):
                    break
                if not self._options.once:
                    topics = survey.topics()
                    until = survey.latest(topics)
            return self.done

    # The manifests

    def _note_keys(self, client: BlockingClient, topics: dict[str, Topic]) -> None:
        """Look up the data keys of the topics. A key that was destroyed leaves the next manifest, too."""

        async def ask(hall: Hall) -> bool:
            for name in topics:
                settings = {each.name: each.value or "" for each in await hall.topics.settings(name)}
                self._seal_keys[name] = settings.get(SEAL_KEYS, "")
            return STORED_FORM in (await hall.connection()).features

        self._has_stored_form = client.ask(ask)

    def _claim(self, topics: dict[str, Topic]) -> None:
        writer = uuid.uuid4().hex
        for name, topic in topics.items():
            ledger = self._ledgers[name]
            claimed = ledger.claim(writer, topic.id.hex())
            self._manifests[name] = without_retired(claimed, _now_ms() - RETIRED_MS)
            self.done.swept += ledger.sweep(self._manifests[name])

    def _publish(self, name: str, manifest: ArchiveManifest) -> None:
        known = self._seal_keys.get(name, "") if manifest.format > 1 else ""
        self._manifests[name] = self._ledgers[name].publish(msgspec.structs.replace(manifest, seal_keys=known))

    def _behind(self, until: Offsets) -> int:
        ends = {name: manifest.ends() for name, manifest in self._manifests.items()}
        return sum(
            max(0, end - ends[name].get(part, 0)) for name, parts in until.items() for part, end in parts.items()
        )

    # One round

    def _round(
        self, client: BlockingClient, survey: SubscriptionMetadata, topics: dict[str, Topic], until: Offsets
    ) -> bool:
        for name, topic in topics.items():
            if topic.id.hex() != self._manifests[name].topic_id:
                raise PipelineError(f"topic {name} was deleted and made anew while it was archived; start again")
        failure: Exception | None = None
        for _ in range(ROUND_TRIES_MAX):
            planned = next_round(
                self._manifests,
                survey.earliest(topics),
                until,
                survey.row_bytes(topics),
                content_bytes_max=self._options.file_bytes_max,
                ranges_max=PIECES_A_CORE * max(1, self._context.defaultParallelism),
                allow_loss=self._options.allow_loss,
            )
            if not planned.ranges and not planned.lost:
                return False
            try:
                written = self._do([self._writing(each, topics[each.topic]) for each in planned.ranges])
            except Exception as failed:  # A worker died; the round is planned again, and written files are recognised.
                if self._wait(0.0):
                    return False
                if one_line_reason(failed) is not None and not self._options.allow_loss:
                    raise
                failure = failed
                self._say("a task failed; this round is done again")
                continue
            self._note_keys(client, topics)  # After the messages were read: the keys that sealed them are among these.
            self._take(planned.lost, written)
            return True
        assert failure is not None
        raise too_many_failures(failure, ROUND_TRIES_MAX) from failure

    def _writing(self, each: Range, topic: Topic) -> WriteTask:
        is_stored_form = not self._options.opens and (self._has_stored_form or bool(self._seal_keys.get(each.topic)))
        work = committed_read_task(self._options.bootstrap, topic, each, COLUMNS, is_stored_form=is_stored_form)
        return WriteTask(self._options.to, work)

    def _do(self, tasks: Sequence[WriteTask | MergeTask]) -> list[tuple[str, int, list[Piece]]]:
        """Run tasks on the executors; the driver must see the files that they wrote before they count."""
        if not tasks:
            return []
        written = self._context.parallelize(tasks, len(tasks)).map(run_task).collect()
        for _, _, pieces in written:
            for piece in pieces:
                if piece.path and self._storage.size_bytes(piece.path) != piece.size_bytes:
                    raise PipelineError(
                        f"an executor wrote {piece.path}, and the driver does not see it at {self._storage.name}; "
                        "the place must be one that all machines share"
                    )
        return written

    def _take(self, lost: dict[Place, Piece], written: list[tuple[str, int, list[Piece]]]) -> None:
        added: dict[str, dict[int, list[Piece]]] = {}
        for (name, part), piece in lost.items():
            added.setdefault(name, {}).setdefault(part, []).append(piece)
            self.done.lost += piece.end - piece.base
            self._say(f"{name}-{part}: offsets {piece.base} to {piece.end - 1} are lost")
        for name, part, pieces in written:
            added.setdefault(name, {}).setdefault(part, []).extend(pieces)
        for parts in added.values():
            for part in parts:
                parts[part].sort(key=lambda piece: piece.base)
        for name, parts in added.items():
            self._publish(name, extended(self._manifests[name], parts))
            for piece in (piece for pieces in parts.values() for piece in pieces):
                self.done.messages += piece.message_count
                self.done.bytes += piece.content_bytes
                self.done.files += bool(piece.path)
            if self._options.merge:
                self._merge(name)

    def _merge(self, name: str) -> None:
        """Merge small files of one topic into larger ones."""
        manifest = self._manifests[name]
        tasks = [
            MergeTask(self._options.to, name, manifest.topic_id, int(part), run)
            for part, pieces in manifest.partitions.items()
            for run in to_merge(pieces, self._options.file_bytes_max)
        ]
        if not tasks:
            return
        try:
            written = self._do(tasks)
        except Exception as failed:  # A worker died. The small files stay as they are until the next time.
            if one_line_reason(failed) is not None:
                raise
            if not self._wait(0.0):
                self._say("a task failed; small files are merged later")
            return
        for task, (_, part, fresh) in zip(tasks, written, strict=True):
            manifest = merged(manifest, part, task.old, fresh, _now_ms())
            self.done.merged += len(task.old)
        self._publish(name, without_retired(manifest, _now_ms() - RETIRED_MS))
        self.done.swept += self._ledgers[name].sweep(self._manifests[name])

    # Release to the broker

    def _listen(self, client: BlockingClient, topics: dict[str, Topic]) -> None:
        """Look up the archive that the broker releases by: none, this one, or another."""

        async def ask(hall: Hall) -> dict[Place, Committed]:
            places = [(name, part) for name, topic in topics.items() for part in topic.leaders]
            return await hall.groups.offsets(ARCHIVE_GROUP, places)

        for (name, part), known in client.ask(ask).items():
            words = known.metadata.split(" ")
            if words[0] != topics[name].id.hex():
                continue
            self._told[name, part] = known.offset
            place = " ".join(words[1:-1])
            if place != self._storage.name and name not in self._silent:
                self._silent.add(name)
                self._say(f"{name} is released by its archive at {place}; this one does not move that")
            elif known.offset > (self._manifests[name].end(part) or 0):
                self._say(f"{name}-{part}: the archive has less than it released; nothing more is released for now")

    def _tell(self, client: BlockingClient, topics: dict[str, Topic]) -> None:
        """Commit the ends of a durable manifest, so that the broker may truncate."""
        offsets: dict[Place, Committed] = {}
        for name, manifest in self._manifests.items():
            for part in topics[name].leaders:
                end = manifest.end(part) or 0
                if name not in self._silent and end != self._told.get((name, part), 0):
                    words = f"{manifest.topic_id} {self._storage.name} {manifest.version}"
                    offsets[name, part] = Committed(end, -1, words)

        async def commit(hall: Hall) -> None:
            await hall.groups.commit(ARCHIVE_GROUP, offsets)

        if offsets:
            client.ask(commit)
            self._told.update({place: each.offset for place, each in offsets.items()})


def archive(spark: SparkSession, options: Options, say: Say, show: Show) -> Done:
    """Archive topics and queues. Raises PipelineError."""
    return Archiver(spark, options, say, show).run()


def _sleep(seconds: float) -> bool:
    time.sleep(seconds)
    return False


def _now_ms() -> int:
    return int(time.time() * 1000)

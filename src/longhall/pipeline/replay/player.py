"""The send of one task of a replay: its rows, at their time, each exactly once.

Every replayed partition is a producer of its own with a transactional id. A transaction has some messages and the
progress of the replay, which is the committed offset of a group of the same name: both count or neither. A task that
starts again fences its predecessor, ends the transaction that it left open, and skips what is before the offset.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple, final

import pyarrow as pa
import pyarrow.compute as pc

from longhall.client.groups import Committed, Membership
from longhall.client.hall import Hall
from longhall.client.security import ClientSecurity
from longhall.client.transactions import Identity
from longhall.pipeline.blocking_client import BlockingClient
from longhall.pipeline.delivery import Delivery
from longhall.pipeline.refusals import PipelineError
from longhall.pipeline.replay.pace import Pace
from longhall.pipeline.replay.source import NAMES, read_sources
from longhall.pipeline.sink_columns import Layout, rows_of
from longhall.records.packer import Packer

CHUNK_BYTES: Final = 8 * 1024 * 1024  # Of one transaction, or the batch that goes beyond it.
TRANSACTION_MS: Final = 60_000
SPARK_SCHEMA: Final = "topic string, partition int, sent bigint"

_OUTCOME: Final = pa.schema([("topic", pa.string()), ("partition", pa.int32()), ("sent", pa.int64())])
_COLUMN: Final = {name: number for number, name in enumerate(NAMES)}
_LAYOUT: Final = Layout(
    key=_COLUMN["key"],
    value=_COLUMN["value"],
    topic=-1,
    partition=_COLUMN["partition"],
    headers=_COLUMN["headers"],
    timestamp=_COLUMN["timestamp"],
    fixed_topic="",
)


class Play(NamedTuple):
    """What all tasks of one replay share."""

    name: str
    fingerprint: str  # Of what is replayed: a name belongs to one replay.
    bootstrap: str
    target: str
    target_partitions: int
    keeps_partitions: bool
    pace: Pace
    security: ClientSecurity = ClientSecurity()

    def group(self, topic: str, partition: int) -> str:
        return f"longhall.replay.{self.name}.{topic}-{partition}"


@final
class Track:
    """One partition of the source, as one producer."""

    def __init__(self, play: Play, client: BlockingClient, topic: str, partition: int) -> None:
        self.sent = 0
        self._play = play
        self._client = client
        self._name = play.group(topic, partition)
        self._partition = partition
        self._rows: list[Any] = []
        self._bytes = 0
        self._fresh = True
        self._packer = Packer(partition)
        self._packer.learn(play.target, play.target_partitions)
        self._identity: Identity = client.ask(self._identify)
        self.next_offset = client.ask(self._reached)

    async def _identify(self, hall: Hall) -> Identity:
        return await hall.transactions.identify(self._name, TRANSACTION_MS)

    async def _reached(self, hall: Hall) -> int:
        # What a predecessor left open was ended just now; a commit of its that is under way is waited for.
        return await hall.persist(lambda: reached(hall, self._play, self._name, stable=True))

    def add(self, batch: Any) -> None:
        """Queue rows of this partition; they are sent when there are enough."""
        offsets = batch.column(_COLUMN["offset"])
        if batch.num_rows and offsets[0].as_py() < self.next_offset:
            batch = batch.filter(pc.greater_equal(offsets, self.next_offset))
        if batch.num_rows:
            self._rows.append(batch)
            self._bytes += batch.nbytes
            if self._bytes >= CHUNK_BYTES:
                self.flush()

    def flush(self) -> None:
        """Send the queued rows in one transaction."""
        if not self._rows:
            return
        batch = self._rows[0] if len(self._rows) == 1 else pa.concat_batches(self._rows)
        self._rows, self._bytes = [], 0
        next_offset = batch.column(_COLUMN["offset"])[-1].as_py() + 1
        placed = batch.set_column(_COLUMN["partition"], "partition", self._partitions(batch))
        self._client.ask(lambda hall: self._transaction(hall, placed, next_offset))
        self.next_offset = next_offset
        self.sent += batch.num_rows

    def _partitions(self, batch: Any) -> Any:
        """The target partition of each row: that of the source, or by key; rows without a key stay together."""
        play = self._play
        same = pa.repeat(pa.scalar(self._partition % play.target_partitions, pa.int32()), batch.num_rows)
        if play.keeps_partitions:
            return same
        return pc.if_else(pc.is_null(batch.column(_COLUMN["key"])), same, pa.scalar(None, pa.int32()))

    async def _transaction(self, hall: Hall, batch: Any, next_offset: int) -> None:
        if not self._fresh:  # The next epoch: sequences start again, and a fenced producer is refused here.
            self._identity = await hall.transactions.identify(self._name, TRANSACTION_MS, self._identity)
        self._fresh = False
        play, identity, name = self._play, self._identity, self._name
        delivery = Delivery(hall, identity, name)
        rows = rows_of(batch, _LAYOUT._replace(fixed_topic=play.target), 0)
        at = 0
        while at < rows.count:
            at = self._packer.pack(rows, at, 0)
            for pack in self._packer.take(everything=at == rows.count):
                await delivery.send((pack.topic, pack.partition), pack.batch(0))
        await delivery.flush()
        progress = {(play.target, 0): Committed(next_offset, -1, play.fingerprint)}
        await hall.transactions.add_offsets(name, identity, name)
        await hall.transactions.commit_offsets(name, identity, name, progress, Membership(), rising=False)
        await hall.transactions.end(name, identity, commit=True, rising=False)


async def reached(hall: Hall, play: Play, group: str, *, stable: bool = False) -> int:
    """The progress of an earlier replay of a partition, at least; with `stable` no transaction is open that may advance
    it.

    Raises PipelineError if the name belongs to another replay.
    """
    place = (play.target, 0)
    found = (await hall.groups.offsets(group, [place], stable=stable)).get(place)
    if found is None:
        return 0
    if found.metadata != play.fingerprint:
        raise PipelineError(
            f"the replay {play.name} had other messages or another target; give this one another --name"
        )
    return found.offset


def play_rows(play: Play, batches: Iterator[Any]) -> Iterator[Any]:
    """Send rows of a partition in the order of their offsets; with a timing, all rows in the order of their time."""
    tracks: dict[tuple[str, int], Track] = {}
    with BlockingClient(play.bootstrap, security=play.security) as client:

        def track_of(topic: str, partition: int) -> Track:
            if (topic, partition) not in tracks:
                tracks[topic, partition] = Track(play, client, topic, partition)
            return tracks[topic, partition]

        for batch in batches:
            for part in _paced(play.pace, batch, lambda: _flush(tracks)):
                for topic, partition, rows in _by_partition(part):
                    track_of(topic, partition).add(rows)
        _flush(tracks)
    for (topic, partition), track in tracks.items():
        yield pa.RecordBatch.from_arrays(
            [pa.array([topic]), pa.array([partition], pa.int32()), pa.array([track.sent])], schema=_OUTCOME
        )


def play_sources(play: Play, batches: Iterator[Any]) -> Iterator[Any]:
    """Read and send in one task, if Spark has nothing to do in between."""
    return play_rows(play, read_sources(batches))


def _flush(tracks: dict[tuple[str, int], Track]) -> None:
    for track in tracks.values():
        track.flush()


def _paced(pace: Pace, batch: Any, flush: Callable[[], None]) -> Iterator[Any]:
    """Yield rows when they are due; those before a wait are sent before it."""
    if not pace.waits:
        yield batch
        return
    times_ms = pc.divide(batch.column("timestamp").cast(pa.int64()), 1000).to_numpy()
    at = 0
    while at < batch.num_rows:
        count, wait_s = pace.next(times_ms[at:], time.monotonic())
        if count:
            yield batch.slice(at, count)
            at += count
        if wait_s > 0 or pace.is_timed:
            flush()
        if wait_s > 0:
            time.sleep(wait_s)


def _by_partition(batch: Any) -> Iterator[tuple[str, int, Any]]:
    topics = pc.unique(batch.column(0)).to_pylist()
    partitions = pc.unique(batch.column(1)).to_pylist()
    if len(topics) == 1 and len(partitions) == 1:
        yield topics[0], partitions[0], batch
        return
    for topic in topics:
        of_topic = batch.filter(pc.equal(batch.column(0), topic))
        for partition in partitions:
            rows = of_topic.filter(pc.equal(of_topic.column(1), partition))
            if rows.num_rows:
                yield topic, partition, rows

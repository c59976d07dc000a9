"""The tasks of an archiver: read a range from its leader and write its files, or merge small files into one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from longhall.pipeline.archive.manifest import Piece
from longhall.pipeline.archive.parquet import Writer, read_piece, sealed_rows
from longhall.pipeline.archive.storage import Storage
from longhall.pipeline.partition_reader import ReadTask, read
from longhall.records.header import parse_header


class WriteTask(NamedTuple):
    """Read a range from a hall and write its files."""

    url: str
    work: ReadTask

    def pieces(self) -> tuple[str, int, list[Piece]]:
        work = self.work
        writer = Writer(Storage(self.url), work.topic, work.topic_id.hex(), work.partition, work.start)
        return work.topic, work.partition, _written(writer, read(work), work.end)


class MergeTask(NamedTuple):
    """Read files of the archive and write them as one."""

    url: str
    topic: str
    topic_id: str
    partition: int
    old: list[Piece]

    def pieces(self) -> tuple[str, int, list[Piece]]:
        storage = Storage(self.url)
        # Days were cut when the files were written first; a second cut could make many out of few.
        writer = Writer(storage, self.topic, self.topic_id, self.partition, self.old[0].base, cuts_days=False)
        return self.topic, self.partition, _written(writer, self._batches(storage), self.old[-1].end)

    def _batches(self, storage: Storage) -> Iterator[Any]:
        last = -1  # The sealed batch before: one that two ranges share is in the files of both.
        for piece in self.old:
            for batch in read_piece(storage, piece):
                for number in sealed_rows(batch) if piece.sealed else ():
                    base = parse_header(batch.column(4)[number].as_py(), 0).base_offset
                    if base == last:
                        assert number == 0, "a batch that two files share is the first of the second"
                        batch = batch.slice(1)
                        break
                    last = base
                yield batch


def _written(writer: Writer, batches: Iterable[Any], end: int) -> list[Piece]:
    for batch in batches:
        writer.add(batch)
    writer.close(end)
    return writer.pieces


def run_task(task: WriteTask | MergeTask) -> tuple[str, int, list[Piece]]:
    """Run a task: topic, partition and the written pieces. Raises PipelineError."""
    return task.pieces()

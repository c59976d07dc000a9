"""What an archive has of one topic: for every partition pieces one after another, without a hole and without overlap.

    topic=orders/_manifest/00000000000000000012.json                       the manifest, one file a version
    topic=orders/partition=0/date=2026-11-15/<base>-<end>.parquet          offsets base to end, the end excluded

A file that no manifest names does not count, whatever is in it. A piece without a path is a range in which there was no
message: markers of transactions, or what compaction took. A piece that is `lost` was gone before anybody archived it.
Pure: knows no file system, no hall and no clock.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from longhall.pipeline.refusals import PipelineError

FORMAT: Final = 1
DAY_MS: Final = 86_400_000
PIECES_MERGED_MIN: Final = 8  # As many small files become one.

_DAY: Final = re.compile(r"/date=([^/]+)/")


class Piece(msgspec.Struct, frozen=True, kw_only=True):
    """A range of one partition. Times are those of the earliest and the latest message."""

    base: int
    end: int
    path: str = ""  # From the root of the archive.
    rows: int = 0
    size_bytes: int = 0
    content_bytes: int = 0  # Of its messages before compression.
    first_ms: int = 0
    last_ms: int = 0
    lost: bool = False


class Retired(msgspec.Struct, frozen=True, kw_only=True):
    """A file in whose place others came; it stays a while for those who read by an older manifest."""

    path: str
    at_ms: int


class ArchiveManifest(msgspec.Struct, frozen=True, kw_only=True):
    """One version. Whoever claims the archive writes the next one with a writer of its own."""

    topic: str
    topic_id: str
    version: int
    writer: str
    format: int = FORMAT
    partitions: dict[str, list[Piece]] = {}
    retired: list[Retired] = []

    def pieces(self, partition: int) -> list[Piece]:
        return self.partitions.get(str(partition), [])

    def end(self, partition: int) -> int | None:
        """Behind the last offset that is archived; None where nothing is."""
        pieces = self.pieces(partition)
        return pieces[-1].end if pieces else None

    def ends(self) -> dict[int, int]:
        return {int(number): pieces[-1].end for number, pieces in self.partitions.items() if pieces}

    def paths(self) -> set[str]:
        """Every file that must stay."""
        named = {piece.path for pieces in self.partitions.values() for piece in pieces if piece.path}
        return named | {each.path for each in self.retired}


def encode(manifest: ArchiveManifest) -> bytes:
    return msgspec.json.encode(manifest)


def decode(data: bytes, name: str) -> ArchiveManifest:
    """Raises PipelineError for what is damaged, of a later format, or has holes."""
    try:
        manifest = msgspec.json.decode(data, type=ArchiveManifest)
    except msgspec.DecodeError as failure:
        raise PipelineError(f"the manifest {name} is damaged ({failure}); restore it or the version before") from None
    if manifest.format > FORMAT:
        raise PipelineError(f"the manifest {name} has format {manifest.format}; a newer Longhall wrote it, use that")
    for number, pieces in manifest.partitions.items():
        wrong = first_break(pieces)
        if wrong is not None:
            raise PipelineError(f"the manifest {name} does not hang together: partition {number} at offset {wrong}")
    return manifest


def first_break(pieces: Sequence[Piece]) -> int | None:
    """The offset at which pieces do not continue one another; None if they do."""
    for at, piece in enumerate(pieces):
        if piece.end <= piece.base or (at and piece.base != pieces[at - 1].end):
            return piece.base
    return None


def extended(manifest: ArchiveManifest, added: dict[int, list[Piece]]) -> ArchiveManifest:
    """With pieces behind the ends; whoever hands in others has a bug."""
    partitions = dict(manifest.partitions)
    for number, pieces in added.items():
        whole = [*manifest.pieces(number), *pieces]
        assert first_break(whole) is None, f"{manifest.topic}-{number}: pieces do not continue the manifest"
        partitions[str(number)] = whole
    return msgspec.structs.replace(manifest, partitions=partitions)


def merged(
    manifest: ArchiveManifest, partition: int, old: Sequence[Piece], new: Sequence[Piece], now_ms: int
) -> ArchiveManifest:
    """With other files for the same range; the old ones retire."""
    pieces = manifest.pieces(partition)
    at = pieces.index(old[0])
    assert pieces[at : at + len(old)] == list(old), "only what the manifest has can be merged"
    whole = [*pieces[:at], *new, *pieces[at + len(old) :]]
    assert first_break(whole) is None, "the merged pieces must fill the same range"
    assert (new[0].base, new[-1].end) == (old[0].base, old[-1].end), "the merged pieces must fill the same range"
    kept = {piece.path for piece in new}
    retired = [Retired(path=piece.path, at_ms=now_ms) for piece in old if piece.path and piece.path not in kept]
    return msgspec.structs.replace(
        manifest,
        partitions={**manifest.partitions, str(partition): whole},
        retired=[*manifest.retired, *retired],
    )


def without_retired(manifest: ArchiveManifest, before_ms: int) -> ArchiveManifest:
    """Without the files that retired before; they are swept with the next sweep."""
    stay = [each for each in manifest.retired if each.at_ms >= before_ms]
    return msgspec.structs.replace(manifest, retired=stay)


def to_merge(pieces: Sequence[Piece], content_bytes_max: int) -> list[list[Piece]]:
    """Runs of small neighbours that are worth one file.

    A run stays within one day and one file, and none of it is larger than all others together: so the file of a message
    at least doubles whenever it is written again, which is a few times at most, however many small files come.
    """
    runs: list[list[Piece]] = []
    for day in _days(pieces):
        size = largest = taken = 0
        for count, piece in enumerate(reversed(day), 1):
            size += piece.content_bytes
            largest = max(largest, piece.content_bytes)
            if size > content_bytes_max:
                break
            if count >= PIECES_MERGED_MIN and largest * 2 <= size:
                taken = count
        if taken:
            runs.append(day[-taken:])
    return runs


def _days(pieces: Iterable[Piece]) -> list[list[Piece]]:
    """Neighbours of the same day; what has no messages goes with any day, what is lost with none."""
    days: list[list[Piece]] = []
    name: str | None = None
    for piece in pieces:
        day = day_of(piece.path) if piece.path else name
        if piece.lost or not days or (day != name and name is not None) or days[-1][-1].lost:
            days.append([])
            name = None if piece.lost else day
        elif name is None:
            name = day
        days[-1].append(piece)
    return [day for day in days if not day[0].lost]


def day_of(path: str) -> str:
    found = _DAY.search(path)
    assert found is not None, f"{path} is of no day"
    return found.group(1)


def topic_directory(topic: str) -> str:
    return f"topic={topic}"


def manifest_directory(topic: str) -> str:
    return f"{topic_directory(topic)}/_manifest"


def manifest_path(topic: str, version: int) -> str:
    return f"{manifest_directory(topic)}/{version:020}.json"


def piece_path(topic: str, partition: int, day: str, base: int, end: int) -> str:
    return f"{topic_directory(topic)}/partition={partition}/date={day}/{base:020}-{end:020}.parquet"

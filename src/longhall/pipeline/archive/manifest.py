"""The manifest of one topic: for every partition a sequence of pieces without gaps and overlaps.

    topic=orders/_manifest/00000000000000000012.json                       the manifest, one file a version
    topic=orders/partition=0/date=2026-11-15/<base>-<end>.parquet          offsets base to end, the end excluded

A file that no manifest names does not count. A piece without a path is a range without messages: transaction markers,
or compacted messages. A piece that is `lost` was deleted before it was archived. Pure: no file system, no hall, no
clock.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from longhall.pipeline.refusals import PipelineError

FORMAT: Final = 2  # The newest that is read here. A manifest without sealed pieces has format 1.
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
    sealed: bool = False  # Some rows are ciphertext: messages of a sealed queue, or whole batches of a sealed topic.
    messages: int = 0  # In sealed pieces, whose rows may be batches.

    @property
    def message_count(self) -> int:
        return self.messages if self.sealed else self.rows


class Retired(msgspec.Struct, frozen=True, kw_only=True):
    """A file that was replaced by others; it stays for a while for readers of an older manifest."""

    path: str
    at_ms: int


class ArchiveManifest(msgspec.Struct, frozen=True, kw_only=True):
    """One version. A writer that claims the archive writes the next version with its own name."""

    topic: str
    topic_id: str
    version: int
    writer: str
    format: int = 1
    partitions: dict[str, list[Piece]] = {}
    retired: list[Retired] = []
    seal_keys: str = ""  # The data keys of the topic, wrapped, as its configuration `longhall.seal.keys` has them.

    def pieces(self, partition: int) -> list[Piece]:
        return self.partitions.get(str(partition), [])

    def end(self, partition: int) -> int | None:
        """The end of the archived offsets; None if there are none."""
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
    """Raises PipelineError for a manifest that is damaged, of a later format, or has gaps."""
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
    """The offset at which two pieces do not adjoin; None if all do."""
    for at, piece in enumerate(pieces):
        if piece.end <= piece.base or (at and piece.base != pieces[at - 1].end):
            return piece.base
    return None


def extended(manifest: ArchiveManifest, added: dict[int, list[Piece]]) -> ArchiveManifest:
    """The manifest with more pieces, which must adjoin its ends."""
    partitions = dict(manifest.partitions)
    for number, pieces in added.items():
        whole = [*manifest.pieces(number), *pieces]
        assert first_break(whole) is None, f"{manifest.topic}-{number}: pieces do not continue the manifest"
        partitions[str(number)] = whole
    is_sealed = any(piece.sealed for pieces in added.values() for piece in pieces)
    newest = FORMAT if is_sealed else manifest.format
    return msgspec.structs.replace(manifest, partitions=partitions, format=newest)


def merged(
    manifest: ArchiveManifest, partition: int, old: Sequence[Piece], new: Sequence[Piece], now_ms: int
) -> ArchiveManifest:
    """The manifest with other files for the same range; the replaced files are retired."""
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
    """The manifest without files that were retired before a time; the next sweep removes them."""
    stay = [each for each in manifest.retired if each.at_ms >= before_ms]
    return msgspec.structs.replace(manifest, retired=stay)


def to_merge(pieces: Sequence[Piece], content_bytes_max: int) -> list[list[Piece]]:
    """Runs of small neighbouring files that are worth one file.

    A run stays within one day and one file size, and no file of it is larger than all others together. So a message's
    file at least doubles whenever it is written again, which bounds the number of rewrites.
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
    """Neighbouring pieces of the same day; a piece without messages belongs to any day, a lost one to none. Sealed
    pieces stay apart from others.
    """
    days: list[list[Piece]] = []
    name: str | None = None
    for piece in pieces:
        day = day_of(piece.path) + "*" * piece.sealed if piece.path else name
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

"""The manifest of a full sync: the names and sizes of its files, checked before anything is written. Pure.

A manifest lists one snapshot of the catalogue's shard and then segments, under the names of `log.layout` and no others.
A name that leaves the directory, repeats, or is of any other form refuses the whole manifest.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import msgspec

from longhall.errors import Code, LonghallError
from longhall.log.layout import PARTITIONS, segment_path, snapshot_path

FILE_BYTES_MAX: Final = 1 << 36  # A segment has 3 GiB at most, and a snapshot is far from this.
OFFSET_MAX: Final = (1 << 63) - 1
SNAPSHOT: Final = snapshot_path(0, 0)
_SEGMENT: Final = re.compile(rf"{PARTITIONS}/([0-9a-f]{{16}})/([0-9]{{20}})\.log")
_SHOWN_CHARACTERS: Final = 80


class SyncManifest(msgspec.Struct, kw_only=True):
    """The files of a checkpoint: names and sizes."""

    token: int
    files: list[tuple[str, int]]


def read_sync_manifest(data: bytes) -> SyncManifest:
    """The manifest, if it is valid. LonghallError(STORAGE_DAMAGED) if not."""
    try:
        manifest = msgspec.msgpack.decode(data, type=SyncManifest)
    except msgspec.DecodeError as error:
        raise _damaged(f"it cannot be read ({error})") from None
    check_files(manifest.files)
    return manifest


def check_files(files: Sequence[tuple[str, int]]) -> None:
    """LonghallError(STORAGE_DAMAGED) unless these are a snapshot and segments, each once and of a possible size."""
    if not files or files[0][0] != SNAPSHOT:
        raise _damaged("it does not begin with the snapshot")
    seen: set[str] = set()
    for number, (path, size) in enumerate(files):
        shown = repr(path[:_SHOWN_CHARACTERS])
        if number > 0 and not _is_segment(path):
            raise _damaged(f"{shown} is not the name of a segment")
        if path in seen:
            raise _damaged(f"{shown} is there twice")
        if not 0 <= size <= FILE_BYTES_MAX:
            raise _damaged(f"{shown} cannot have {size} bytes")
        seen.add(path)


def _is_segment(path: str) -> bool:
    found = _SEGMENT.fullmatch(path)
    if found is None or int(found[2]) > OFFSET_MAX:
        return False
    return segment_path(int(found[1], 16), int(found[2])) == path


def _damaged(why: str) -> LonghallError:
    return LonghallError(Code.STORAGE_DAMAGED, f"the leader's list of files is refused: {why}")

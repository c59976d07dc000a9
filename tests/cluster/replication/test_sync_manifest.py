"""What a leader lists for a full sync: only names of the layout, each once, of a possible size."""

from __future__ import annotations

import posixpath

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from longhall.cluster.replication.sync_manifest import (
    FILE_BYTES_MAX,
    SNAPSHOT,
    SyncManifest,
    check_files,
    read_sync_manifest,
)
from longhall.errors import Code, LonghallError
from longhall.log.layout import PARTITIONS, index_path, segment_path, snapshot_path

FIRST = (SNAPSHOT, 100)
segments = st.builds(segment_path, st.integers(0, 2**64 - 1), st.integers(0, 2**63 - 1))


@given(st.lists(st.tuples(segments, st.integers(0, FILE_BYTES_MAX)), unique_by=lambda one: one[0]))
def test_what_a_leader_lists_is_believed(files: list[tuple[str, int]]) -> None:
    manifest = SyncManifest(token=7, files=[FIRST, *files])
    assert read_sync_manifest(msgspec.msgpack.encode(manifest)) == manifest


SEGMENT = segment_path(1, 0)


@pytest.mark.parametrize(
    "path",
    [
        "",
        ".",
        "../../etc/passwd",
        "/etc/passwd",
        f"../{SEGMENT}",
        f"/{SEGMENT}",
        f"./{SEGMENT}",
        f"{SEGMENT}/",
        f"{SEGMENT}\n",
        f"{SEGMENT}\0",
        SEGMENT.upper(),
        f"{PARTITIONS}/../longhall.json",
        f"{PARTITIONS}/{1:016x}/../../member.json",
        f"{PARTITIONS}//{1:016x}/{0:020d}.log",
        f"{PARTITIONS}/{1:015x}/{0:020d}.log",
        f"{PARTITIONS}/{1:016x}/{2**63:020d}.log",
        f"{PARTITIONS}/{1:016x}/{'٣' * 20}.log",
        index_path(1, 0),
        snapshot_path(0, 5),
        snapshot_path(1, 0),
        SNAPSHOT,
        "longhall.json",
        "member.json",
        "wal/00000000.wal",
        "whole",
    ],
)
def test_other_names_are_refused(path: str) -> None:
    with pytest.raises(LonghallError) as refused:
        check_files([FIRST, (path, 1)])
    assert refused.value.code is Code.STORAGE_DAMAGED


@given(st.text(max_size=60) | st.from_regex(r"[./a-z0-9]{0,40}", fullmatch=True))
def test_whatever_is_accepted_stays_below_the_directory(path: str) -> None:
    try:
        check_files([FIRST, (path, 1)])
    except LonghallError:
        return
    assert posixpath.normpath(path) == path
    assert path.startswith(f"{PARTITIONS}/")


@pytest.mark.parametrize(
    "files",
    [
        [],
        [(SEGMENT, 1)],
        [FIRST, FIRST],
        [FIRST, (SEGMENT, 1), (SEGMENT, 1)],
        [FIRST, (SEGMENT, -1)],
        [FIRST, (SEGMENT, FILE_BYTES_MAX + 1)],
        [(SNAPSHOT, -1)],
    ],
)
def test_lists_that_cannot_be_are_refused(files: list[tuple[str, int]]) -> None:
    with pytest.raises(LonghallError) as refused:
        check_files(files)
    assert refused.value.code is Code.STORAGE_DAMAGED


@given(st.binary(max_size=100))
def test_bytes_that_are_no_list_are_refused(data: bytes) -> None:
    with pytest.raises(LonghallError):
        read_sync_manifest(data)

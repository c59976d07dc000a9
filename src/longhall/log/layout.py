"""The paths in a data directory. They contain internal numbers only, never names given by users."""

from __future__ import annotations

from typing import Final

from longhall.errors import Code, LonghallError

PARTITIONS: Final = "partitions"
SHARDS: Final = "shards"
IDENTITY: Final = "longhall.json"
SCRUB: Final = "scrub.json"  # The progress of the background scrub; without it a pass begins from the start.


def partition_directory(partition: int) -> str:
    """The directory of one partition."""
    return f"{PARTITIONS}/{partition:016x}"


def segment_path(partition: int, base_offset: int) -> str:
    """The segment file: record batches from `base_offset` on, one after another, and nothing else."""
    return f"{PARTITIONS}/{partition:016x}/{base_offset:020d}.log"


def index_path(partition: int, base_offset: int) -> str:
    """The sparse index of a segment."""
    return f"{PARTITIONS}/{partition:016x}/{base_offset:020d}.index"


def shard_directory(shard: int) -> str:
    """The directory of a shard's snapshots."""
    return f"{SHARDS}/{shard:04d}"


def snapshot_path(shard: int, position: int) -> str:
    """The state of a shard when the write-ahead log ended at `position`."""
    return f"{SHARDS}/{shard:04d}/{position:020d}.snapshot"


def base_offset_of(path: str) -> int:
    """The base offset of a segment, which is its file name."""
    name = path.rpartition("/")[2].partition(".")[0]
    if not name.isdecimal():
        raise LonghallError(Code.INVALID_REQUEST, f"{path} is not the name of a segment")
    return int(name)

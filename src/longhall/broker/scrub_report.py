"""The findings and the progress of the background scrub, for metrics, operators and the next start."""

from __future__ import annotations

from typing import Final, NamedTuple, final

import msgspec

from longhall.log.checkpoint_jobs import SMALL_FILE
from longhall.log.layout import SCRUB, index_path, segment_path, shard_directory
from longhall.world.ports import Disk, World

SEGMENT: Final = "segment"
INDEX: Final = "index"
SNAPSHOT: Final = "snapshot"
LOG: Final = "log"
IDENTITY: Final = "identity"
KINDS: Final = (SEGMENT, INDEX, SNAPSHOT, LOG, IDENTITY)
DAMAGED_MAX: Final = 4096  # Stored damaged items; the next pass finds the others again.


class StoredItem(NamedTuple):
    """Something that can be damaged: a segment or an index by partition and base offset, a snapshot by its shard."""

    kind: str
    number: int = 0
    base_offset: int = 0
    name: str = ""

    @property
    def path(self) -> str:
        """Its path."""
        if self.kind == SEGMENT:
            return segment_path(self.number, self.base_offset)
        if self.kind == INDEX:
            return index_path(self.number, self.base_offset)
        if self.kind == SNAPSHOT:
            return shard_directory(self.number)
        return self.name or f"wal, from position {self.number}"


class ScrubProgress(msgspec.Struct, kw_only=True):
    """The position of a pass: everything before `partition` and its segment `base_offset` is verified."""

    began_ms: int = 0
    is_under_way: bool = False
    partition: int = -1  # -1: before the first partition.
    base_offset: int = 0
    completed_ms: int = 0  # When the last pass ended.

    def begin(self, now_ms: int) -> None:
        """Begin a new pass."""
        self.began_ms = now_ms
        self.is_under_way = True
        self.rewind()

    def rewind(self) -> None:
        """Return to the start."""
        self.partition, self.base_offset = -1, 0

    def reach(self, partition: int, base_offset: int) -> None:
        """Move to this segment."""
        self.partition, self.base_offset = partition, base_offset

    def complete(self, now_ms: int) -> None:
        """End the pass."""
        self.is_under_way = False
        self.completed_ms = now_ms
        self.rewind()


@final
class ScrubReport:
    """Progress, counters and known damage. Counters start at 0 with the process."""

    def __init__(self) -> None:
        self.progress = ScrubProgress()
        self.passes = 0
        self.restarts = 0  # Requested passes.
        self.failures = 0
        self.bytes_read = 0
        self.bytes_done = 0  # Of the pass that is under way,
        self.bytes_total = 0  # of so many.
        self.damage = dict.fromkeys(KINDS, 0)
        self.repairs = dict.fromkeys(KINDS, 0)
        self.damaged: dict[StoredItem, None] = {}  # What is damaged now, as far as is known.

    @property
    def ratio(self) -> float:
        """The verified fraction of the pass; 1 between passes."""
        if not self.progress.is_under_way:
            return 1.0 if self.progress.completed_ms else 0.0
        return min(self.bytes_done / self.bytes_total, 1.0) if self.bytes_total else 0.0

    def found(self, place: StoredItem) -> bool:
        """Note a damaged item; True if it is new."""
        if place in self.damaged:
            return False
        self.damage[place.kind] += 1
        if len(self.damaged) < DAMAGED_MAX:
            self.damaged[place] = None
        return True

    def repaired(self, place: StoredItem) -> bool:
        """Note a repaired item; True if it was known as damaged."""
        if place not in self.damaged:
            return False
        del self.damaged[place]
        self.repairs[place.kind] += 1
        return True


def read_progress(disk: Disk) -> ScrubProgress:
    """The stored progress; the start of a pass if there is none."""
    if not disk.exists(SCRUB):
        return ScrubProgress()
    file = disk.open(SCRUB)
    try:
        return msgspec.json.decode(file.read_at(0, file.size()), type=ScrubProgress)
    except msgspec.DecodeError:
        return ScrubProgress()
    finally:
        file.close()


async def write_progress(world: World, progress: ScrubProgress) -> None:
    """Store the progress in the background."""
    arguments: dict[str, object] = {"path": SCRUB, "data": msgspec.json.encode(progress)}
    await world.janitor.run(SMALL_FILE, arguments)

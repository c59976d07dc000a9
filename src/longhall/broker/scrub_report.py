"""What the background scrub has found and how far it is: for metrics, for operators, and for the next start."""

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
DAMAGED_MAX: Final = 4096  # Places that are remembered as damaged; what is more is found again by the next pass.


class StoredItem(NamedTuple):
    """Something that can be damaged: a segment or an index by partition and base offset, a snapshot by its shard."""

    kind: str
    number: int = 0
    base_offset: int = 0
    name: str = ""

    @property
    def path(self) -> str:
        """Where it lies."""
        if self.kind == SEGMENT:
            return segment_path(self.number, self.base_offset)
        if self.kind == INDEX:
            return index_path(self.number, self.base_offset)
        if self.kind == SNAPSHOT:
            return shard_directory(self.number)
        return self.name or f"wal, from position {self.number}"


class ScrubProgress(msgspec.Struct, kw_only=True):
    """Where a pass is. What stands before `partition` and, in it, before `base_offset` is done."""

    began_ms: int = 0
    is_under_way: bool = False
    partition: int = -1  # -1: not even begun with partitions.
    base_offset: int = 0
    completed_ms: int = 0  # When a pass ended last.

    def begin(self, now_ms: int) -> None:
        """Another pass, from the start."""
        self.began_ms = now_ms
        self.is_under_way = True
        self.rewind()

    def rewind(self) -> None:
        """From the start."""
        self.partition, self.base_offset = -1, 0

    def reach(self, partition: int, base_offset: int) -> None:
        """This segment is next."""
        self.partition, self.base_offset = partition, base_offset

    def complete(self, now_ms: int) -> None:
        """The pass has ended."""
        self.is_under_way = False
        self.completed_ms = now_ms
        self.rewind()


@final
class ScrubReport:
    """Counters are those of this life of the node."""

    def __init__(self) -> None:
        self.progress = ScrubProgress()
        self.passes = 0
        self.restarts = 0  # How often a pass was asked for.
        self.failures = 0
        self.bytes_read = 0
        self.bytes_done = 0  # Of the pass that is under way,
        self.bytes_total = 0  # of so many.
        self.damage = dict.fromkeys(KINDS, 0)
        self.repairs = dict.fromkeys(KINDS, 0)
        self.damaged: dict[StoredItem, None] = {}  # What is damaged now, as far as is known.

    @property
    def ratio(self) -> float:
        """How much of the pass is done; 1 between two of them."""
        if not self.progress.is_under_way:
            return 1.0 if self.progress.completed_ms else 0.0
        return min(self.bytes_done / self.bytes_total, 1.0) if self.bytes_total else 0.0

    def found(self, place: StoredItem) -> bool:
        """This is damaged. Whether that is new."""
        if place in self.damaged:
            return False
        self.damage[place.kind] += 1
        if len(self.damaged) < DAMAGED_MAX:
            self.damaged[place] = None
        return True

    def repaired(self, place: StoredItem) -> bool:
        """This is whole again. Whether it was known as damaged."""
        if place not in self.damaged:
            return False
        del self.damaged[place]
        self.repairs[place.kind] += 1
        return True


def read_progress(disk: Disk) -> ScrubProgress:
    """Where the last life of the node stopped; the start of a pass if nobody knows."""
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
    """Note it beside the loop."""
    arguments: dict[str, object] = {"path": SCRUB, "data": msgspec.json.encode(progress)}
    await world.janitor.run(SMALL_FILE, arguments)

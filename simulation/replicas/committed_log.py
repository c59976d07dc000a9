"""The oracle of a replicated log: what is committed stays so, everywhere, and one leader an epoch commits.

Every member reports what it applies and what it appends; leaders report how far they call it committed; clients report
what was acknowledged to them. An entry is told from another by its fingerprint.
"""

from __future__ import annotations

import zlib
from typing import final

from longhall.cluster.replication.push_batches import PushBatch
from longhall.log.frames import BATCH, BATCH_CONTINUES, Entry, decode_entries
from longhall.records.batch import parse_header
from longhall.shards.replica import Replica
from simulation.checkers.violation import Violation

Print = tuple[int, int, int, int, int, int]  # Epoch, shard, sequence, checksum; of a batch, partition and next offset.


def print_of(entry: Entry) -> Print:
    partition, next_offset = -1, 0
    if entry.kind == BATCH and not entry.flags & BATCH_CONTINUES:
        partition, next_offset = entry.partition(), parse_header(entry.batch(), 0).next_offset
    return entry.epoch, entry.shard, entry.sequence, zlib.crc32(entry.body), partition, next_offset


@final
class LogIncarnation:
    """What one life of a member has in its log, as far as it was seen: entries behind `start`."""

    def __init__(self, committed_log: CommittedLog, name: str, start: int) -> None:
        self.name = name
        self.start = start
        self.prints: list[Print] = []
        self.compared = start
        self._committed_log = committed_log

    def check_start(self, replica: Replica) -> None:
        """What recovery has applied was committed."""
        committed = len(self._committed_log.entries)
        self._committed_log.demand(
            replica.applied <= committed,
            f"{self.name} applied {replica.applied} entries in recovery, and {committed} are committed",
        )

    def applied(self, entry: Entry) -> None:
        """The next entry was applied."""
        self.prints.append(print_of(entry))

    def appended(self, bundle: PushBatch) -> None:
        """The leader appended these."""
        for entry in decode_entries(bundle.entries, 0, len(bundle.entries)):
            self.prints.append(print_of(entry))

    def committed(self, epoch: int, index: int) -> None:
        """The leader calls everything up to `index` committed."""
        self._committed_log.commit(self, epoch, index)

    def followed(self, applied: int) -> None:
        """A follower has applied so much: all of it must be what was committed."""
        self._committed_log.compare(self, applied, f"{self.name} applied")

    def leads(self, index: int) -> None:
        """A new leader is open, with a log up to `index`."""
        committed_log = self._committed_log
        committed = len(committed_log.entries)
        committed_log.demand(index >= committed, f"{self.name} leads with {index} entries of {committed} committed")
        committed_log.compare(self, min(index, len(committed_log.entries)), f"{self.name} leads and has")

    def print_at(self, index: int) -> Print | None:
        """What stands at this index; None if it was before this life."""
        return self.prints[index - self.start - 1] if index > self.start else None


@final
class CommittedLog:
    """The committed log."""

    def __init__(self) -> None:
        self.entries: list[Print] = []
        self.leaders: dict[int, str] = {}  # Who committed something under an epoch.
        self.acknowledged: dict[str, tuple[str, int, int]] = {}  # By value: topic, partition, offset.
        self.acknowledgements = 0
        self.broken = ""  # The first promise that was.
        self.visible: dict[int, int] = {}  # By partition: the offset behind the last committed message.

    def commit(self, life: LogIncarnation, epoch: int, index: int) -> None:
        leader = self.leaders.setdefault(epoch, life.name)
        self.demand(leader == life.name, f"{life.name} and {leader} both commit in epoch {epoch}")
        known = len(self.entries)
        self.compare(life, min(index, known), f"{life.name} in epoch {epoch} commits")
        for number in range(known + 1, index + 1):
            found = life.print_at(number)
            self.demand(found is not None, f"{life.name} commits entry {number}, which nobody saw it append")
            assert found is not None
            self.entries.append(found)
            if found[4] >= 0:
                self.visible[found[4]] = found[5]

    def shows(self, name: str, partition: int, high_watermark: int) -> None:
        """Readers of this partition see what is below; at a leader all of that is committed."""
        visible = self.visible.get(partition, 0)
        self.demand(
            high_watermark <= visible, f"{name} shows {partition} up to {high_watermark}, committed is {visible}"
        )

    def compare(self, life: LogIncarnation, index: int, what: str) -> None:
        """Everything of this life up to `index` is the truth. Looks only at what was not compared before."""
        self.demand(index <= len(self.entries), f"{what} entry {index}, and {len(self.entries)} are committed")
        for number in range(life.compared + 1, index + 1):
            found = life.print_at(number)
            self.demand(
                found == self.entries[number - 1],
                f"{what} {found} as entry {number}, and {self.entries[number - 1]} was committed",
            )
        life.compared = max(index, life.compared)

    def demand(self, holds: bool, sentence: str) -> None:
        """Raise unless it holds, and remember it: who calls may be a member that does not know what to do with it."""
        if not holds:
            self.broken = self.broken or sentence
            raise Violation(sentence)

    def acknowledge(self, value: str, topic: str, partition: int, offset: int) -> None:
        self.acknowledgements += 1
        self.acknowledged[value] = (topic, partition, offset)

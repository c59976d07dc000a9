"""The oracle of a replicated log: a committed entry stays, on every replica, and one leader in each epoch commits.

Every replica reports what it applies and appends; leaders report their commit index; clients report acknowledgements.
Entries are compared by fingerprint.
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
    """The log of one incarnation of a replica, as far as it was observed: the entries behind `start`."""

    def __init__(self, committed_log: CommittedLog, name: str, start: int) -> None:
        self.name = name
        self.start = start
        self.prints: list[Print] = []
        self.compared = start
        self._committed_log = committed_log

    def check_start(self, replica: Replica) -> None:
        """Check that recovery applied only committed entries."""
        committed = len(self._committed_log.entries)
        self._committed_log.demand(
            replica.applied <= committed,
            f"{self.name} applied {replica.applied} entries in recovery, and {committed} are committed",
        )

    def applied(self, entry: Entry) -> None:
        """The next entry was applied."""
        self.prints.append(print_of(entry))

    def appended(self, bundle: PushBatch) -> None:
        """The leader appended this batch of entries."""
        for entry in decode_entries(bundle.entries, 0, len(bundle.entries)):
            self.prints.append(print_of(entry))

    def committed(self, epoch: int, index: int) -> None:
        """The leader's commit index moved to `index`."""
        self._committed_log.commit(self, epoch, index)

    def followed(self, applied: int) -> None:
        """A follower has applied so many entries: all of them must be committed."""
        self._committed_log.compare(self, applied, f"{self.name} applied")

    def leads(self, index: int) -> None:
        """A new leader serves, with a log up to `index`."""
        committed_log = self._committed_log
        committed = len(committed_log.entries)
        committed_log.demand(index >= committed, f"{self.name} leads with {index} entries of {committed} committed")
        committed_log.compare(self, min(index, len(committed_log.entries)), f"{self.name} leads and has")

    def print_at(self, index: int) -> Print | None:
        """The fingerprint of the entry at this index; None if it precedes this incarnation."""
        return self.prints[index - self.start - 1] if index > self.start else None


@final
class CommittedLog:
    """The committed entries of a run, the acknowledged messages, and what readers may see."""

    def __init__(self) -> None:
        self.entries: list[Print] = []
        self.leaders: dict[int, str] = {}  # By epoch: the leader that committed in it.
        self.acknowledged: dict[str, tuple[str, int, int]] = {}  # By value: topic, partition, offset.
        self.acknowledgements = 0
        self.broken = ""  # The first violation.
        self.visible: dict[int, int] = {}  # By partition: the offset behind the last committed message.

    def commit(self, life: LogIncarnation, epoch: int, index: int) -> None:
        leader = self.leaders.setdefault(epoch, life.name)
        self.demand(leader == life.name, f"{life.name} and {leader} both commit in epoch {epoch}")
        known = len(self.entries)
        self.compare(life, min(index, known), f"{life.name} in epoch {epoch} commits")
        for number in range(known + 1, index + 1):
            found = life.print_at(number)
            self.demand(found is not None, f"{life.name} commits entry {number}, which it was not seen to append")
            assert found is not None
            self.entries.append(found)
            if found[4] >= 0:
                self.visible[found[4]] = found[5]

    def shows(self, name: str, partition: int, high_watermark: int) -> None:
        """A replica serves this partition up to the high watermark: at a leader all of that must be committed."""
        visible = self.visible.get(partition, 0)
        self.demand(
            high_watermark <= visible, f"{name} shows {partition} up to {high_watermark}, committed is {visible}"
        )

    def compare(self, life: LogIncarnation, index: int, what: str) -> None:
        """Check that the incarnation's entries up to `index` equal the committed ones. Skips those compared before."""
        self.demand(index <= len(self.entries), f"{what} entry {index}, and {len(self.entries)} are committed")
        for number in range(life.compared + 1, index + 1):
            found = life.print_at(number)
            self.demand(
                found == self.entries[number - 1],
                f"{what} {found} as entry {number}, and {self.entries[number - 1]} was committed",
            )
        life.compared = max(index, life.compared)

    def demand(self, holds: bool, sentence: str) -> None:
        """Raise a Violation unless the condition holds, and record it: the caller may be a replica that handles
        the exception.
        """
        if not holds:
            self.broken = self.broken or sentence
            raise Violation(sentence)

    def acknowledge(self, value: str, topic: str, partition: int, offset: int) -> None:
        self.acknowledgements += 1
        self.acknowledged[value] = (topic, partition, offset)

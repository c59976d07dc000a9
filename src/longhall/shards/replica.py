"""What one member of a cluster knows of the log that all of them keep.

Entries are counted by their index (see `feed`). Some of them are only written here and wait in `pending`, the others
are applied:

    1 ............ applied ............ index
      state of the hall     pending: written here, and nobody may see it

A leader applies what it appends at once, so it has nothing pending. A follower applies what is `committed`: cutting its
log back to where it agrees with a new leader's never has to undo anything. By epoch and index an entry is known
everywhere: one epoch has one leader, and a leader never changes what it wrote.

This class counts and remembers; it does not write, and it asks nobody.
"""

from __future__ import annotations

from collections import deque
from typing import Any, Final, final

from longhall.errors import Code, LonghallError
from longhall.log.epochs import Epochs
from longhall.log.frames import Entry

EPOCHS_MAX: Final = 4096  # Remembered; a follower that knows only older ones fetches everything anew.


@final
class Replica:
    """See the module."""

    def __init__(self, shards: int) -> None:
        self.index = 0
        self.applied = 0
        self.committed = 0
        self.leading = False
        self.epochs = Epochs()
        self.sequences = [0] * shards  # Of the last entry written for each shard.
        self.pending: deque[tuple[Entry, int]] = deque()  # With the hall time of each.
        self.pending_bytes = 0
        self.parts: dict[int, bytes] = {}  # Beginnings of events that take several entries, as far as they are applied.
        self.batch_parts: dict[int, list[bytes]] = {}  # Likewise of batches, behind the flags of the first.

    @property
    def epoch(self) -> int:
        """Of the last entry; 0 if there is none."""
        return max(self.epochs.latest, 0)

    def note(self, shard: int, sequence: int, epoch: int) -> None:
        """An entry was appended here by the leader itself, who applies it at once."""
        assert not self.pending
        self._count(shard, sequence, epoch)
        self.applied = self.index

    def take(self, entry: Entry, time_ms: int) -> None:
        """An entry was written here and waits for its commit. One that does not fit is damage: nothing has changed."""
        if not 0 <= entry.shard < len(self.sequences) or entry.epoch < self.epoch:
            raise LonghallError(Code.STORAGE_DAMAGED, f"entry {self.index + 1} of the log cannot be what it says")
        if entry.sequence != self.sequences[entry.shard] + 1:
            raise LonghallError(
                Code.STORAGE_DAMAGED,
                f"the log has a gap: shard {entry.shard} is at {self.sequences[entry.shard]}, not {entry.sequence - 1}",
            )
        self._count(entry.shard, entry.sequence, entry.epoch)
        self.pending.append((entry, time_ms))
        self.pending_bytes += entry.size_bytes

    def commit(self, index: int) -> None:
        """Everything up to `index`, as far as it is here, is committed."""
        self.committed = max(self.committed, min(index, self.index))

    def next_committed(self) -> Entry | None:
        """The next entry that is committed and not applied. It stays pending until `advance`."""
        return self.pending[0][0] if self.applied < self.committed and self.pending else None

    def advance(self) -> None:
        """The first pending entry has been applied."""
        entry, _ = self.pending.popleft()
        self.pending_bytes -= entry.size_bytes
        self.applied += 1

    def truncate(self, index: int) -> None:
        """Forget every entry behind `index`. What is committed cannot be forgotten: whoever asks for that is wrong."""
        if index < self.committed or index < self.applied:
            raise LonghallError(
                Code.STORAGE_DAMAGED, f"a leader lacks entries from {index + 1} on that were committed here"
            )
        while self.index > index:
            entry, _ = self.pending.pop()
            self.pending_bytes -= entry.size_bytes
            self.sequences[entry.shard] -= 1
            self.index -= 1
        self.epochs.cut_after(index + 1)

    def _count(self, shard: int, sequence: int, epoch: int) -> None:
        self.index += 1
        self.sequences[shard] = sequence
        if epoch > self.epochs.latest:
            self.epochs.note(epoch, self.index)
            if self.epochs.count > EPOCHS_MAX:
                self.epochs.forget_oldest()

    def snapshot(self) -> dict[str, Any]:
        """For `restore`, beside the state of the hall as of `applied`."""
        return {
            "index": self.index,
            "applied": self.applied,
            "committed": self.committed,
            "epochs": self.epochs.snapshot(),
            "sequences": list(self.sequences),
            "pending": [
                (entry.kind, entry.flags, entry.shard, entry.sequence, entry.epoch, entry.body, time_ms)
                for entry, time_ms in self.pending
            ],
            "parts": dict(self.parts),
            # Of a feature level that not every reader knows: not there unless there are any.
            **({"batch_parts": dict(self.batch_parts)} if self.batch_parts else {}),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Take over what `snapshot` gave, as MessagePack gives it back: with lists for tuples."""
        self.index = state["index"]
        self.applied = state["applied"]
        # A leader's snapshot is published when all that it had applied was committed, which it could not know before.
        self.committed = max(state["committed"], state["applied"])
        self.epochs.restore([(int(epoch), int(first)) for epoch, first in state["epochs"]])
        self.sequences = list(state["sequences"])
        self.parts.update(state["parts"])
        for number, parts in state.get("batch_parts", {}).items():
            self.batch_parts[number] = list(parts)
        for kind, flags, shard, sequence, epoch, body, time_ms in state["pending"]:
            self.pending.append((Entry(kind, flags, shard, sequence, epoch, body), time_ms))
            self.pending_bytes += len(body)


def common_index(
    leader: list[tuple[int, int]], leader_index: int, follower: list[tuple[int, int]], follower_index: int
) -> int:
    """The last index up to which two logs agree, from their epochs (number and first index) and ends alone.

    Whatever the follower has behind it was never committed. Within the newest epoch that both know, the shorter one
    ends; it is not enough to look at the follower's last epoch, which the leader may never have heard of.
    """
    ends = dict(_ends(leader, leader_index))
    for epoch, end in reversed(_ends(follower, follower_index)):
        if epoch in ends:
            return min(end, ends[epoch])
    return 0


def _ends(epochs: list[tuple[int, int]], index: int) -> list[tuple[int, int]]:
    """The last index of each epoch."""
    ends: list[tuple[int, int]] = []
    for at, (epoch, _) in enumerate(epochs):
        ends.append((epoch, epochs[at + 1][1] - 1 if at + 1 < len(epochs) else index))
    return ends


def epoch_at(replica: Replica, index: int) -> int:
    """The epoch of an entry; 0 for none."""
    return max(replica.epochs.epoch_at(index), 0) if 0 < index <= replica.index else 0

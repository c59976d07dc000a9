"""What one member of a cluster knows of the log that all of them keep.

Entries are counted by their index (see `feed`). Some of them are only written here and wait in `pending`, the others
are applied:

    1 ............ applied ............ index
      state of the hall     pending: written here, and nobody may see it

A leader applies what it appends at once, so it has nothing pending. A follower applies what is `committed`: cutting its
log back to where it agrees with a new leader's never has to undo anything. By epoch and index an entry is known
everywhere: one epoch has one leader, and a leader never changes what it wrote. Should a coordinator that lost its data
give an epoch twice, the random nonces with which the two leaders began it differ.

This class counts and remembers; it does not write, and it asks nobody.
"""

from __future__ import annotations

from collections import deque
from typing import Any, Final, final

import msgspec

from longhall.errors import Code, LonghallError
from longhall.log.epochs import Epochs
from longhall.log.frames import BATCH_CONTINUES, EVENT, Entry
from longhall.records.header import HEADER_BYTES, RECORD_COUNT_AT
from longhall.shards.shard import SHARD

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
        self.nonces: dict[int, int] = {}  # By epoch; those of leaders that wrote none are missing.
        self.sequences = [0] * shards  # Of the last entry written for each shard.
        self.pending: deque[tuple[Entry, int]] = deque()  # With the hall time of each.
        self.pending_bytes = 0
        self.parts: dict[int, bytes] = {}  # Beginnings of events that take several entries, as far as they are applied.
        self.batch_parts: dict[int, list[bytes]] = {}  # Likewise of batches, behind the flags of the first.
        self.replicas: frozenset[int] = frozenset()  # Who keeps the log, as the log itself notes it; empty if unknown.

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
        if entry.epoch > self.epochs.latest:
            self._note_nonce(entry)
        self._count(entry.shard, entry.sequence, entry.epoch)
        self.pending.append((entry, time_ms))
        self.pending_bytes += entry.size_bytes

    def commit(self, index: int) -> None:
        """Everything up to `index`, as far as it is here, is committed."""
        self.committed = max(self.committed, min(index, self.index))

    def apply_next(self) -> tuple[Entry, int] | None:
        """The next entry that is committed and not applied; the caller applies it now."""
        if self.applied >= self.committed or not self.pending:
            return None
        return self.apply_any()

    def apply_any(self) -> tuple[Entry, int]:
        """The next pending entry, committed or not: whoever is to lead applies everything it has."""
        found = self.pending.popleft()
        self.pending_bytes -= found[0].size_bytes
        self.applied += 1
        return found

    def truncate(self, index: int) -> int:
        """Forget every entry behind `index`; returns how many messages that were. What is committed cannot be
        forgotten: whoever asks for that is wrong.
        """
        if index < self.committed or index < self.applied:
            raise LonghallError(
                Code.STORAGE_DAMAGED, f"a leader lacks entries from {index + 1} on that were committed here"
            )
        messages = 0
        while self.index > index:
            entry, _ = self.pending.pop()
            messages += _message_count(entry)
            self.pending_bytes -= entry.size_bytes
            self.sequences[entry.shard] -= 1
            self.index -= 1
        self.epochs.cut_after(index + 1)
        for epoch in [one for one in self.nonces if one > self.epochs.latest]:
            del self.nonces[epoch]
        return messages

    def _note_nonce(self, entry: Entry) -> None:
        """The first entry of an epoch says with which nonce its leader began it."""
        if entry.kind == EVENT and entry.room() == SHARD:
            try:
                event: Any = msgspec.msgpack.decode(entry.event())
            except msgspec.DecodeError:
                return  # Whoever applies it says what is wrong with it.
            if isinstance(event, dict) and event.get("nonce"):
                self.nonces[entry.epoch] = event["nonce"]

    def _count(self, shard: int, sequence: int, epoch: int) -> None:
        self.index += 1
        self.sequences[shard] = sequence
        if epoch > self.epochs.latest:
            self.epochs.note(epoch, self.index)
            if self.epochs.count > EPOCHS_MAX:
                self.nonces.pop(self.epochs.oldest, None)
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
            **({"replicas": sorted(self.replicas)} if self.replicas else {}),
            **({"nonces": dict(self.nonces)} if self.nonces else {}),
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
        self.replicas = frozenset(state.get("replicas", ()))
        self.nonces.update(state.get("nonces", {}))
        for number, parts in state.get("batch_parts", {}).items():
            self.batch_parts[number] = list(parts)
        for kind, flags, shard, sequence, epoch, body, time_ms in state["pending"]:
            self.pending.append((Entry(kind, flags, shard, sequence, epoch, body), time_ms))
            self.pending_bytes += len(body)


def _message_count(entry: Entry) -> int:
    """How many messages an entry holds; those of a batch that takes several entries stand in its first."""
    if entry.kind == EVENT or entry.flags & BATCH_CONTINUES:
        return 0
    batch = entry.batch()
    return int.from_bytes(batch[RECORD_COUNT_AT : RECORD_COUNT_AT + 4], "big") if len(batch) >= HEADER_BYTES else 0


def common_index(
    leader: list[tuple[int, int]],
    leader_index: int,
    follower: list[tuple[int, int]],
    follower_index: int,
    nonces: tuple[dict[int, int], dict[int, int]] = ({}, {}),
) -> int:
    """The last index up to which two logs agree, from their epochs (number and first index) and ends alone.

    Within the newest epoch that began at the same index in both logs, and with the same nonce where both know one
    (`nonces`, the leader's and the follower's), the shorter log ends. The number alone proves nothing: a coordinator
    that lost its data gives the same number twice. It is not enough to look at the follower's last epoch either, which
    the leader may never have heard of.
    """
    firsts = dict(leader)
    here, there = nonces
    ends = dict(_ends(leader, leader_index))
    for (epoch, first), (_, end) in zip(reversed(follower), reversed(_ends(follower, follower_index)), strict=True):
        if firsts.get(epoch) == first and _is_same(here.get(epoch, 0), there.get(epoch, 0)):
            return min(end, ends[epoch])
    return 0


def _is_same(nonce: int, other: int) -> bool:
    return nonce == other or not nonce or not other


def contains(
    longer: list[tuple[int, int]],
    longer_index: int,
    other: list[tuple[int, int]],
    other_index: int,
    committed: int,
    nonces: tuple[dict[int, int], dict[int, int]] = ({}, {}),
) -> bool:
    """True unless the first log lacks entries of the other one up to `committed`.

    A log remembers a bounded number of epochs. If all that the other one knows are older than these, nothing speaks
    against it: who leads has everything from before its oldest epoch.
    """
    if common_index(longer, longer_index, other, other_index, nonces) >= committed:
        return True
    return bool(longer) and bool(other) and other[-1][0] < longer[0][0] and other_index < longer[0][1]


def _ends(epochs: list[tuple[int, int]], index: int) -> list[tuple[int, int]]:
    """The last index of each epoch."""
    ends: list[tuple[int, int]] = []
    for at, (epoch, _) in enumerate(epochs):
        ends.append((epoch, epochs[at + 1][1] - 1 if at + 1 < len(epochs) else index))
    return ends


def epoch_at(replica: Replica, index: int) -> int:
    """The epoch of an entry; 0 for none."""
    return max(replica.epochs.epoch_at(index), 0) if 0 < index <= replica.index else 0

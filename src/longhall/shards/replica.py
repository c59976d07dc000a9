"""The state of one replica's copy of the log.

Entries are counted by their index (see `feed`). Some are only written here and wait in `pending`, the others are
applied:

    1 ............ applied ............ index
      state of the hall     pending: written here, and not visible

A leader applies an entry when it appends it, so it has nothing pending. A follower applies `committed` entries only:
truncating its log to the point where it agrees with a new leader's never has to undo anything. Epoch and index identify
an entry on every replica: one epoch has one leader, and a leader never changes an entry. If a coordinator that lost its
data gives an epoch twice, the random nonces of the two leaders differ.

This class counts and remembers; it neither writes nor communicates.
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

EPOCHS_MAX: Final = 4096  # Remembered epochs; a follower that knows only older ones needs a full sync.


@final
class Replica:
    """Indexes, epochs and pending entries of one copy. `applied <= committed` on a follower, and `applied <= index`."""

    def __init__(self, shards: int) -> None:
        self.index = 0
        self.applied = 0
        self.committed = 0
        self.leading = False
        self.epochs = Epochs()
        self.nonces: dict[int, int] = {}  # By epoch; leaders that wrote none are missing.
        self.sequences = [0] * shards  # The last entry written for each shard.
        self.pending: deque[tuple[Entry, int]] = deque()  # Entry and its hall time.
        self.pending_bytes = 0
        self.parts: dict[int, bytes] = {}  # Applied beginnings of events that span several entries.
        self.batch_parts: dict[int, list[bytes]] = {}  # The same for batches, with the flags of the first entry.
        self.replicas: frozenset[int] = frozenset()  # The replicas as the log itself notes them; empty if unknown.

    @property
    def epoch(self) -> int:
        """The epoch of the last entry; 0 if there is none."""
        return max(self.epochs.latest, 0)

    def note(self, shard: int, sequence: int, epoch: int) -> None:
        """Count an entry that the leader itself appended and applied."""
        assert not self.pending
        self._count(shard, sequence, epoch)
        self.applied = self.index

    def take(self, entry: Entry, time_ms: int) -> None:
        """Add a written entry that waits for its commit. An entry that does not fit is damage: nothing has changed."""
        if not 0 <= entry.shard < len(self.sequences) or entry.epoch < self.epoch:
            raise LonghallError(Code.STORAGE_DAMAGED, f"entry {self.index + 1} of the log is inconsistent")
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
        """Note that everything up to `index`, as far as it is here, is committed."""
        self.committed = max(self.committed, min(index, self.index))

    def next_committed(self) -> Entry | None:
        """The next committed entry that is not applied. It stays pending until `advance`."""
        return self.pending[0][0] if self.applied < self.committed and self.pending else None

    def advance(self) -> None:
        """Note that the first pending entry was applied."""
        entry, _ = self.pending.popleft()
        self.pending_bytes -= entry.size_bytes
        self.applied += 1

    def truncate(self, index: int) -> int:
        """Remove every entry after `index`; returns the number of messages in them. Removing a committed entry is
        refused as damage.
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
        """Read the nonce of the leader from the first entry of an epoch."""
        if entry.kind == EVENT and entry.room() == SHARD:
            try:
                event: Any = msgspec.msgpack.decode(entry.event())
            except msgspec.DecodeError:
                return  # Applying the entry reports what is wrong with it.
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
        """The state for `restore`, beside the state of the hall as of `applied`."""
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
            # Needs a feature level that not every reader has: omitted unless there are any.
            **({"batch_parts": dict(self.batch_parts)} if self.batch_parts else {}),
            **({"replicas": sorted(self.replicas)} if self.replicas else {}),
            **({"nonces": dict(self.nonces)} if self.nonces else {}),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Restore the result of `snapshot`, decoded from MessagePack with lists for tuples."""
        self.index = state["index"]
        self.applied = state["applied"]
        # A leader's snapshot is published when everything it had applied was committed, which was unknown when it was
        # taken.
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
    """The number of messages in an entry; those of a batch that spans several entries count in its first."""
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

    They agree up to the end of the shorter log within the newest epoch that began at the same index in both, with the
    same nonce where both know one (`nonces`, the leader's and the follower's). The number alone proves nothing: a
    coordinator that lost its data gives the same number twice. The follower's last epoch alone is not enough either,
    because the leader may not know it.
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

    A log remembers a bounded number of epochs. If all epochs that the other one knows are older than these, the answer
    is True: a leader has everything from before its oldest epoch.
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

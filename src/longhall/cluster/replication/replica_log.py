"""The log of a replication group on this node: where it ends, how far it is synced, and the marks in it.

    index       the last entry that is appended here
    synced      the last entry that is on the disk here
    epoch       the newest epoch that this node was given or has written

A truncation may overtake a sync that is under way. That sync then counts only for the entries before the cut, because
other entries may stand behind it by the time the sync ends.

Marks are entries without a sequence, for the recovery of this node alone: how far the log is committed, and where it
was truncated. They are not replicated.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final, final

from longhall.broker.events import CommittedTo, Truncated, encoder
from longhall.broker.hall import Hall
from longhall.cluster.replication.roles import ReplicaOptions
from longhall.cluster.rpc.wire import Push
from longhall.log.frames import encode_event
from longhall.names import CATALOGUE_SHARD
from longhall.shards.replica import Replica
from longhall.shards.shard import SHARD

NEVER: Final = 1 << 62

_log = logging.getLogger("longhall.replica")


@final
class ReplicaLog:
    """The node's copy of the log, appended to by its leader or its follower role, never by both."""

    def __init__(self, hall: Hall, options: ReplicaOptions) -> None:
        assert hall.replica is not None
        self.replica: Replica = hall.replica
        self.epoch = self.replica.epoch
        self.index = self.replica.index
        self.synced = self.replica.index  # Recovery has synced everything that it found.
        self._hall = hall
        self._options = options
        self._loop = asyncio.get_running_loop()
        self._sync_index_max = NEVER  # A sync that is under way proves no entry behind this one.
        self._marked = self.replica.committed
        self._marked_position = hall.wal.end
        self._is_stopped = False
        self._timer = self._loop.call_later(options.mark_ms / 1000, self._mark_periodically)

    def stop(self) -> None:
        """Write no more marks."""
        self._is_stopped = True
        self._timer.cancel()

    def append(self, shard: int, sequence: int, epoch: int) -> int:
        """Count an entry that the leader is about to append; returns its index."""
        self.replica.note(shard, sequence, epoch)
        self.index = self.replica.index
        return self.index

    def append_push(self, push: Push) -> None:
        """Append the entries that the leader pushed; they are applied when they are committed."""
        replica = self.replica
        before = replica.index
        try:
            for entry in push.decode():
                replica.take(entry, push.time_ms)
            self._hall.wal.append_together(push.entries, push.count)
        except BaseException:  # An entry that is not in the log here must not be counted, or it would be acknowledged.
            replica.truncate(before)
            raise
        self.index = replica.index

    def truncate(self, index: int) -> None:
        """Remove the entries behind `index`. Only pending entries go. The mark keeps a recovery from restoring them."""
        hall = self._hall
        entries, messages = self.index - index, self.replica.truncate(index)
        hall.messages_cut += messages
        # They were not committed. Their leader may have acknowledged them alone, where a topic allows it.
        _log.warning("the log was truncated", extra={"index": index, "entries": entries, "messages": messages})
        self.index = index
        hall.commits.write()  # So that the mark begins a frame.
        hall.positions.cut_behind(index, hall.wal.end)
        self.synced = min(self.synced, index)
        self._sync_index_max = min(self._sync_index_max, index)
        self._write_mark(Truncated(index=index))
        hall.journal.touch(hall.shards[0], True)
        hall.commits.kick()

    def written(self) -> None:
        """Everything that is appended is in the page cache."""
        self._hall.positions.note(self.index, self._hall.wal.end)
        if self._hall.wal.end - self._marked_position >= self._options.mark_bytes:
            self._loop.call_soon(self._mark)  # Not now: a round is about to begin with what is written.

    def begin_sync(self) -> int:
        """A sync begins; returns the index that it reaches."""
        self._sync_index_max = NEVER
        return self.index

    def end_sync(self, index: int) -> int:
        """The sync that was to reach `index` has ended; returns the last index that is synced."""
        self.synced = max(self.synced, min(index, self._sync_index_max))
        return self.synced

    def _mark_periodically(self) -> None:
        self._timer = self._loop.call_later(self._options.mark_ms / 1000, self._mark_periodically)
        self._mark()

    def _mark(self) -> None:
        """Mark how far the log is committed, so that a recovery can apply it."""
        if self.replica.committed > self._marked and self._hall.commits.failure is None and not self._is_stopped:
            self._marked = self.replica.committed
            self._marked_position = self._hall.wal.end
            self._write_mark(CommittedTo(index=self._marked))
            self._hall.commits.kick()

    def _write_mark(self, mark: Truncated | CommittedTo) -> None:
        self._hall.wal.append(encode_event(0, CATALOGUE_SHARD, 0, self.epoch, SHARD, encoder.encode(mark)))

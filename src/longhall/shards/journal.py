"""Rounds (group commit): all entries that the shards appended since the last round are written and synced together.

    collect      shards append to the write-ahead log, large batches to their segments
    begin        the log's frames are written; the round notes the files to sync and the sequence of each shard
    finish       the files are synced: every shard advances to its noted sequence

Only one round is between `begin` and `finish`; later entries are collected for the next one, so a slow disk makes
rounds larger, not more numerous. Entries of topics with less than `always` are released when written.

With a feed the shards do not advance by themselves: the journal reports writes and syncs to the feed.
"""

from __future__ import annotations

from typing import final

from longhall.log.files import OpenFiles
from longhall.log.notes import Notes
from longhall.log.wal import Wal
from longhall.shards.feed import Feed
from longhall.shards.shard import Committable, Shard
from longhall.world.ports import File


@final
class Round:
    """One round that is being synced."""

    def __init__(self, position: int, index: int, files: list[File], reached: list[tuple[Shard, int]]) -> None:
        self.position = position
        self.index = index  # The index of the feed, if there is one.
        self.files = files
        self.reached = reached


@final
class Journal:
    """The shards of a node over its one write-ahead log."""

    def __init__(self, wal: Wal, shards: list[Shard], open_files: OpenFiles) -> None:
        self.wal = wal
        self.shards = shards
        self.rounds = 0
        self.feed: Feed | None = None
        self.notes: Notes | None = None
        self._touched: dict[int, Shard] = {}
        self._open_files = open_files
        self._paths: dict[str, None] = {}
        self._sync_wanted = False
        self._written: list[tuple[Committable, int]] = []

    def touch(self, shard: Shard, sync: bool) -> None:
        """Note that the shard appended something; `sync` is True if a request waits until it is on the disk."""
        self._touched[shard.number] = shard
        if sync:
            self._sync_wanted = True

    def touch_file(self, file: File) -> None:
        """Add the file of a large batch to the files that the round syncs."""
        # By path: many files may be opened before the round begins, and then this one may be closed.
        self._paths[file.path] = None

    @property
    def file_count(self) -> int:
        """The number of segments that the round must sync so far."""
        return len(self._paths)

    def wait_written(self, target: Committable, value: int) -> None:
        """Call `target.committed(value)` when everything appended so far is in the page cache."""
        self._written.append((target, value))

    @property
    def pending(self) -> bool:
        """True if there is something to write."""
        return self.wal.pending_bytes > 0

    @property
    def sync_wanted(self) -> bool:
        """True if a request waits for a sync."""
        return self._sync_wanted

    def write(self, time_ms: int) -> None:
        """Write the collected entries to the page cache and release the requests that wait for no more than that."""
        if self.notes is not None:
            self.notes.write()
        if self.wal.pending_bytes:
            self.wal.write(time_ms)
            if self.feed is not None:
                self.feed.written(time_ms)
        if self._written:
            written = self._written
            self._written = []
            for target, value in written:
                target.committed(value)

    def begin(self) -> Round:
        """Take everything written so far into a round. The caller syncs its files and then calls `finish`."""
        assert self.wal.pending_bytes == 0
        files = self.wal.dirty_files()
        files.extend([self._open_files.get(path) for path in self._paths])
        reached = [(shard, shard.sequence) for shard in self._touched.values()]
        self._paths = {}
        self._touched = {}
        self._sync_wanted = False
        index = self.feed.begin() if self.feed is not None else 0
        return Round(self.wal.end, index, files, reached)

    def finish(self, round: Round) -> None:
        """Advance the shards: the round is on the disk."""
        self.rounds += 1
        self.wal.synced(round.position)
        if self.feed is not None:
            self.feed.synced(round.index)
            return
        for shard, sequence in round.reached:
            shard.advance(sequence)

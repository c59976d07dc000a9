"""Rounds: what all shards appended since the last one is written together and synced together.

    collect      shards append to the write-ahead log, large batches to their segments
    begin        the log's frames are written; the round knows which files must be synced and where each shard stood
    finish       the files are synced: every shard advances to where it stood

Only one round is between `begin` and `finish`; what arrives meanwhile is collected for the next, so a slow disk makes
rounds larger, not more numerous. Entries of topics that asked for less than `always` are released when written.

With a feed the shards do not advance by themselves: it hears what is written and what is synced.
"""

from __future__ import annotations

from typing import final

from longhall.log.files import OpenFiles
from longhall.log.wal import Wal
from longhall.shards.feed import Feed
from longhall.shards.shard import Committable, Shard
from longhall.world.ports import File


@final
class Round:
    """One round on its way to the disk."""

    def __init__(self, position: int, index: int, files: list[File], reached: list[tuple[Shard, int]]) -> None:
        self.position = position
        self.index = index  # Of the feed, if there is one.
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
        self._touched: dict[int, Shard] = {}
        self._open_files = open_files
        self._paths: dict[str, None] = {}
        self._sync_wanted = False
        self._written: list[tuple[Committable, int]] = []

    def touch(self, shard: Shard, sync: bool) -> None:
        """The shard appended something; `sync` says whether somebody waits until it is on the disk."""
        self._touched[shard.number] = shard
        if sync:
            self._sync_wanted = True

    def touch_file(self, file: File) -> None:
        """A large batch was written here and must be synced with the round."""
        # By its path: many files may be opened before the round begins, and then this one is closed for them.
        self._paths[file.path] = None

    @property
    def file_count(self) -> int:
        """How many segments the round must sync so far."""
        return len(self._paths)

    def wait_written(self, target: Committable, value: int) -> None:
        """Call `target.committed(value)` when everything appended so far is in the page cache."""
        self._written.append((target, value))

    @property
    def pending(self) -> bool:
        """Whether there is something to write."""
        return self.wal.pending_bytes > 0

    @property
    def sync_wanted(self) -> bool:
        """Whether somebody waits for a sync."""
        return self._sync_wanted

    def write(self, time_ms: int) -> None:
        """Write what was collected to the page cache and release those who wait for no more than that."""
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
        """The round is on the disk."""
        self.rounds += 1
        self.wal.synced(round.position)
        if self.feed is not None:
            self.feed.synced(round.index)
            return
        for shard, sequence in round.reached:
            shard.advance(sequence)

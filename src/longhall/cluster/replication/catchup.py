"""Reading the log back from the disk, for followers that are further behind than memory reaches.

Frames are read beside the loop, from the position that `Hall.positions` has for an entry. Marks of this node
(`replica_log`) are skipped, and so are truncated entries: their epoch is not the one that the log has at their index.
"""

from __future__ import annotations

from typing import Final, final

from longhall.broker.events import Truncated, shard_decoder
from longhall.broker.hall import Hall
from longhall.errors import Code, LonghallError
from longhall.log.frames import FRAME_HEADER_BYTES, REFERENCE, Entry, Frame, decode_frame, encode_entry, frame_size
from longhall.log.wal import FILE_HEADER_BYTES
from longhall.shards.replica import Replica, epoch_at

READ_BYTES: Final = 1024 * 1024


@final
class Stretch:
    """Entries from `first` on that were read from one frame, or from a part of it."""

    def __init__(self, first: int, time_ms: int) -> None:
        self.first = first
        self.time_ms = time_ms
        self.entries: list[Entry] = []

    def encode(self) -> bytes:
        """The entries in the format of the log."""
        return b"".join([encode_entry(entry) for entry in self.entries])


@final
class LogReader:
    """Reads the entries behind `index` in order. LonghallError(OFFSET_OUT_OF_RANGE) when the log has them no more."""

    def __init__(self, hall: Hall, replica: Replica, index: int) -> None:
        place = hall.positions.place_for(index + 1)
        if place is None:
            raise _gone(index + 1)
        self.index = index  # The last entry that was returned.
        self._hall = hall
        self._replica = replica
        self._count, self._position = place
        self._data = b""
        self._data_position = 0

    async def next(self, until: int) -> Stretch | None:
        """The next entries, none behind `until`; None when there are no more."""
        while self.index < until:
            frame = await self._frame()
            if frame is None:
                return None
            stretch = Stretch(self.index + 1, frame.time_ms)
            count_before = self._count
            for entry in frame.entries:
                self._take(entry, stretch, until)
            if self.index >= until:  # The same frame is read again for the rest of it.
                self._count = count_before
            else:
                self._advance(frame)
            if stretch.entries:
                return stretch
        return None

    def _take(self, entry: Entry, stretch: Stretch, until: int) -> None:
        if entry.sequence == 0:
            mark = shard_decoder.decode(entry.event())
            if isinstance(mark, Truncated):
                self._count = mark.index
            return
        self._count += 1
        if self._count != self.index + 1 or self._count > until or epoch_at(self._replica, self._count) != entry.epoch:
            return
        if entry.kind == REFERENCE:
            raise _gone(self._count)  # From before the node was in a cluster.
        stretch.entries.append(entry)
        self.index = self._count

    def _advance(self, frame: Frame) -> None:
        if frame.is_last:
            self._position = self._hall.wal.next_file_start(self._position) + FILE_HEADER_BYTES
        else:
            self._position += frame.size_bytes

    async def _frame(self) -> Frame | None:
        """The frame at the current position; None at the end of the log."""
        wal = self._hall.wal
        if self._position >= wal.end:
            return None
        at = self._position - self._data_position
        size = frame_size(self._data, at, self._position) if 0 <= at < len(self._data) else 0
        if size == 0 or at + size > len(self._data):
            await self._read(max(size, READ_BYTES))
            at = 0
            size = frame_size(self._data, 0, self._position)
            if size > len(self._data):
                await self._read(size)
        frame = decode_frame(self._data, at, self._position)
        if frame is None:
            raise _gone(self.index + 1)
        return frame

    async def _read(self, size: int) -> None:
        found = self._hall.wal.locate(self._position)
        if found is None or found[2] < FRAME_HEADER_BYTES:
            raise _gone(self.index + 1)
        file, at, left = found
        if at < FILE_HEADER_BYTES:
            self._position += FILE_HEADER_BYTES - at
            at, left = FILE_HEADER_BYTES, left - (FILE_HEADER_BYTES - at)
        self._data = await self._hall.world.janitor.read(file, at, min(size, left))
        self._data_position = self._position


def _gone(index: int) -> LonghallError:
    return LonghallError(Code.OFFSET_OUT_OF_RANGE, f"entry {index} is not in the log any more")

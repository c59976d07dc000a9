"""The write-ahead log of a node: one sequence of frames over a ring of files.

`append` only collects; `write` writes the collected entries as frames to the page cache; the caller syncs `dirty_files`
and then calls `synced`. This module does not know what an entry means.

A file is a slot that is reused once the state of every entry in it is stored elsewhere: overwriting allocated blocks is
the cheapest durable write. A spare slot, allocated ahead, lets small entries be written when the disk is full.

    file   0  u32  magic "LHWL"       8  u64  position of the file's first byte in the log
           4  u16  version           16  u64  size of the file
           6  u16  0                 24  u32  CRC-32C of the bytes before
          28..63   zero              64  frames
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final, final

from crc32c import crc32c

from longhall.errors import Code, LonghallError
from longhall.log.correction import correct_frame
from longhall.log.frames import (
    ENTRY_BYTES_MAX,
    FRAME_BYTES_MAX,
    FRAME_HEADER_BYTES,
    FRAME_MAGIC_BYTES,
    Frame,
    decode_frame,
    encode_frame_header,
    frame_position,
    frame_size,
)
from longhall.log.notes import Notes
from longhall.world.ports import Buffer, Disk, File

FILE_HEADER_BYTES: Final = 64
FILE_BYTES_MIN: Final = 16 * 1024 * 1024  # More than the largest frame.
PIECE_BYTES_MIN: Final = 4096  # Pieces that are larger on average are written without a copy.
FREE_FILES_MIN: Final = 2  # Retained for reuse.
SPARE_FILES_MAX: Final = 8  # Created ahead for one large batch.

_MAGIC: Final = b"LHWL"
_FREE: Final = b"FREE"  # Replaces the magic: this file holds nothing, whatever its other bytes say.
_VERSION: Final = 1
_HEADER: Final = struct.Struct(">4sHHQQ")
_DIRECTORY: Final = "wal"


@final
class Damage:
    """A range of the log that was durable and cannot be read."""

    def __init__(self, position: int, next_position: int) -> None:
        self.position = position
        self.next_position = next_position


@final
class WalFile:
    """One slot of the ring, and the part of the log that it holds."""

    def __init__(self, slot: int, file: File, start: int, size_bytes: int) -> None:
        self.slot = slot
        self.file = file
        self.start = start
        self.size_bytes = size_bytes

    @property
    def end(self) -> int:
        """The position after the file's last byte."""
        return self.start + self.size_bytes


@final
class Wal:
    """The log and its files. First `recover`, iterate it to its end, `resume`; then append, write, sync, release."""

    def __init__(self, disk: Disk, file_bytes: int, kept_bytes: int = 0) -> None:
        assert file_bytes >= FILE_BYTES_MIN
        self.end = 0  # The position of the next frame.
        self.horizon = 0  # Everything before this position is durable.
        self.vouched = 0  # The horizon of the last frame: after a crash, damage before it is recognised as damage.
        # Positions of bytes with a flipped bit that recovery found, and the right byte.
        self.corrections: dict[int, int] = {}
        self.torn_bytes = 0  # The size of incomplete frames that recovery found after the last valid one.
        self.incarnation = 1
        self.time_ms = 0  # The last hall time found in the log.
        self.appended = 0  # Entries appended since the start.
        self.notes: Notes | None = None  # Written before an atomic write closes a frame.
        self._disk = disk
        self._file_bytes = file_bytes
        self._free_max = max(FREE_FILES_MIN, kept_bytes // file_bytes)
        self._used: list[WalFile] = []  # In the order of the log; the last one is being written.
        self._free: list[WalFile] = []
        self._slots = 0
        self._body: list[Buffer] = []
        self._body_bytes = 0
        self._entries = 0
        self._closed: list[tuple[int, list[Buffer]]] = []  # Full frames of this round: number of entries, body.
        self._closed_bytes = 0
        self._unsynced: list[File] = []  # Files completed since the last sync began.
        self._held = False
        self._recovered_from = (-1, -1)  # Arguments of the last `recover`.
        self._reserved = True  # True if the disk has reserved space for the rest of the current file.

    # Appending

    def append(self, first: bytes, second: bytes = b"") -> None:
        """Add an entry, in one or two pieces, to the current round."""
        assert len(first) + len(second) <= ENTRY_BYTES_MAX
        if self._body_bytes >= FRAME_BYTES_MAX and not self._held:
            self._close_frame()  # Not after an append: a note about the entry may follow in the same frame.
        self._body.append(first)
        self._body_bytes += len(first)
        if second:
            self._body.append(second)
            self._body_bytes += len(second)
        self._entries += 1
        self.appended += 1

    def append_together(self, entries: Buffer, count: int) -> None:
        """Add consecutive entries: all of them survive a crash, or none."""
        assert len(entries) <= FRAME_BYTES_MAX + ENTRY_BYTES_MAX
        assert not self._held
        if self._entries and self._body_bytes + len(entries) > FRAME_BYTES_MAX + ENTRY_BYTES_MAX:
            self._close_frame()
        self._body.append(entries)
        self._body_bytes += len(entries)
        self._entries += count
        self.appended += count
        if self._body_bytes >= FRAME_BYTES_MAX:
            self._close_frame()

    def hold(self) -> None:
        """Write everything appended until `let_go` in one frame: all of it survives a crash, or none.

        The caller keeps the total within the size of one entry.
        """
        assert not self._held
        if self.notes is not None and self.notes.is_due():
            self.notes.write()
        if self._body_bytes >= FRAME_BYTES_MAX // 2:
            self._close_frame()
        self._held = True

    def extend(self) -> None:
        """Like `hold`, and what is appended until `let_go` joins the frame of the entry before it."""
        assert not self._held
        self._held = True

    @property
    def is_held(self) -> bool:
        """True between `hold` and `let_go`."""
        return self._held

    def let_go(self) -> None:
        """End the group that `hold` began."""
        self._held = False

    @property
    def open_bytes(self) -> int:
        """The size of the frame that is open."""
        return self._body_bytes

    @property
    def current_file(self) -> File:
        """The file that is being written."""
        return self._used[-1].file

    @property
    def pending_bytes(self) -> int:
        """The bytes appended and not written yet."""
        return self._body_bytes + self._closed_bytes

    def room_bytes(self) -> int:
        """The bytes that can be appended without allocating space on the disk."""
        # A frame that does not fit into the current file is written to the next one, so the end of a file may stay
        # unused.
        room = 0
        if self._used and self._reserved:
            room = max(self._used[-1].end - self.end - FRAME_BYTES_MAX - ENTRY_BYTES_MAX, 0)
        for file in self._free:
            room += file.size_bytes - FILE_HEADER_BYTES - FRAME_BYTES_MAX - ENTRY_BYTES_MAX
        return room - self.pending_bytes

    def write(self, time_ms: int) -> int:
        """Write the current round and return the position after it."""
        if self._entries:
            self._close_frame()
        for entries, body in self._closed:
            self._write_frame(time_ms, entries, body)
        self._closed.clear()
        self._closed_bytes = 0
        return self.end

    def dirty_files(self) -> list[File]:
        """The files to sync for everything written so far to be durable. Call it once per sync."""
        files = self._unsynced
        self._unsynced = []
        files.append(self._used[-1].file)
        return files

    def synced(self, position: int) -> None:
        """Note that everything before `position` is durable."""
        if position > self.horizon:
            self.horizon = position

    def _close_frame(self) -> None:
        # Copying small pieces together is cheaper than an element for each in the call; copying large ones is not.
        small = self._body_bytes < PIECE_BYTES_MIN * len(self._body)
        body: list[Buffer] = [b"".join(self._body)] if small else self._body
        self._closed.append((self._entries, body))
        self._closed_bytes += self._body_bytes
        self._body = []
        self._body_bytes = 0
        self._entries = 0

    def _write_frame(self, time_ms: int, entries: int, body: list[Buffer]) -> None:
        body_bytes = sum([len(piece) for piece in body])
        if self.end + FRAME_HEADER_BYTES + body_bytes + FRAME_HEADER_BYTES > self._used[-1].end:
            self._begin_next_file(time_ms)
        header = encode_frame_header(self.end, self.horizon, time_ms, self.incarnation, entries, body)
        current = self._used[-1]
        self.end += current.file.write_at(self.end - current.start, [header, *body])
        self.vouched = self.horizon

    def _begin_next_file(self, time_ms: int) -> None:
        """End the current file with a frame that says so, and begin the next file."""
        current = self._used[-1]
        farewell = encode_frame_header(self.end, self.horizon, time_ms, self.incarnation, 0, [])
        current.file.write_at(self.end - current.start, (farewell,))
        self._unsynced.append(current.file)
        self._begin_file(current.end)

    # Space

    def prepare_spare(self) -> None:
        """Allocate one spare file. OSError when the disk has no room for it."""
        if not self._reserved:
            self._reserve_current()
        if not self._free:
            self._free.append(self._make_file())

    def prepare_room(self, size_bytes: int) -> None:
        """Allocate as many files as `size_bytes` needs, within a bound. OSError when the disk has no room for them."""
        self.prepare_spare()
        while self.room_bytes() < size_bytes and len(self._free) < SPARE_FILES_MAX:
            self._free.append(self._make_file())

    def release_before(self, position: int) -> None:
        """Release the log before `position`: its files may be reused."""
        while len(self._used) > 1 and self._used[0].end <= position:
            file = self._used.pop(0)
            if len(self._free) < self._free_max:
                self._free.append(file)
            else:
                file.file.close()
                self._disk.remove(file.file.path)

    def locate(self, position: int) -> tuple[File, int, int] | None:
        """The file with `position`, the position in it, and the number of bytes that follow; None if no file has it."""
        for file in self._used:
            if file.start <= position < file.end:
                behind = min(self.end, file.end)
                return file.file, position - file.start, max(behind - position, 0)
        return None

    def kept_files(self) -> list[tuple[str, int, int]]:
        """The files of the log in order: path, first position, and the position after the durable part."""
        return [
            (one.file.path, one.start, min(one.end, self.horizon)) for one in self._used if one.start < self.horizon
        ]

    @property
    def start(self) -> int:
        """The first position of the retained log."""
        return self._used[0].start if self._used else self.end

    def close(self) -> None:
        """Close the files. Unsynced writes may be lost; none of them was acknowledged."""
        for file in self._used + self._free:
            file.file.close()

    def _make_file(self) -> WalFile:
        slot = self._slots
        path = f"{_DIRECTORY}/{slot:08d}.wal"
        self._disk.make_directory(_DIRECTORY)
        file = self._disk.open(path, create=True)
        try:
            file.allocate(0, self._file_bytes)
            file.truncate(self._file_bytes)  # A sync that need not record a new file size is a third cheaper.
        except OSError:
            file.close()
            self._disk.remove(path)
            raise
        self._disk.sync_directory(_DIRECTORY)
        self._slots += 1
        return WalFile(slot, file, 0, self._file_bytes)

    def _begin_file(self, start: int) -> None:
        file = self._free.pop() if self._free else self._make_file()
        file.start = start
        head = _HEADER.pack(_MAGIC, _VERSION, 0, start, file.size_bytes)
        head += crc32c(head).to_bytes(4, "big")
        file.file.write_at(0, (head.ljust(FILE_HEADER_BYTES, b"\0"),))
        self._used.append(file)
        self._reserved = True
        self.end = start + FILE_HEADER_BYTES

    # Recovery

    def recover(self, from_position: int, durable: int = 0) -> Iterator[Frame | Damage]:
        """Every valid frame from `from_position` on, and the damaged ranges that were durable; ends at the torn tail.

        `durable` is a position that the caller knows to be synced, for instance from the newest snapshot. May be called
        again before `resume`; each call reads the files again.
        """
        if not self._used and not self._free:
            self._find_files()
        chain = self._chain(from_position)
        durable = max(durable, from_position)
        if self._recovered_from != (from_position, durable):  # Else the durable end of the log is known.
            self._recovered_from = (from_position, durable)
            for frame in self._walk(chain, from_position, 1 << 62):
                if isinstance(frame, Frame) and frame.horizon > durable:
                    durable = frame.horizon
            self.horizon = durable
        self.torn_bytes = 0
        return self._walk(chain, from_position, self.horizon)

    def next_file_start(self, position: int) -> int:
        """The position at which the file after the one with `position` begins."""
        for file in self._used:
            if file.start <= position < file.end:
                return file.end
        return position

    def sync_recovered(self, end: int) -> None:
        """Make the recovered log durable: after a crash of the process alone it may be in the page cache only.

        The part that was not known to be durable is written again: after a failed sync the kernel considers its pages
        clean, so that a second sync alone would succeed without writing them. Flipped bits are corrected.
        """
        for file in self._used:
            for position, value in self.corrections.items():
                if file.start <= position < min(end, file.end):
                    file.file.write_at(position - file.start, (bytes((value,)),))
            first = max(self.horizon, file.start)
            behind = min(end, file.end)
            if first < behind:
                data = file.file.read_at(first - file.start, behind - first)
                file.file.write_at(first - file.start, (data,))
            self._disk.sync_now(file.file)

    def resume(self, position: int, time_ms: int) -> None:
        """Continue writing at `position`: nothing after it was acknowledged."""
        while self._used and self._used[-1].start >= position:
            self._free.append(self._used.pop())
        free, self._free = self._free, []
        for file in free:
            if len(self._free) >= FREE_FILES_MIN or not self._make_free(file, position):
                file.file.close()
                self._disk.remove(file.file.path)
        self.end = position
        self.vouched = min(self.horizon, position)
        self.horizon = position
        self.time_ms = time_ms
        if not self._used or position >= self._used[-1].end:
            self._begin_file(position)
        else:
            self._reserve_current()

    def _reserve_current(self) -> None:
        """Reserve blocks for the whole current file: a power failure may undo an earlier reservation."""
        try:
            self._used[-1].file.allocate(0, self._used[-1].size_bytes)
            self._reserved = True
        except OSError:
            self._reserved = False

    def _make_free(self, file: WalFile, position: int) -> bool:
        """Retain a file for reuse; False if the disk has no space for it in the current file size."""
        try:
            file.file.allocate(0, self._file_bytes)
        except OSError:
            return False  # The file and its blocks are removed.
        file.size_bytes = self._file_bytes
        if file.start >= position:
            # Its header names a position that another file may take: two files must never claim one position.
            file.file.write_at(0, (_FREE.ljust(FILE_HEADER_BYTES, b"\0"),))
            self._disk.sync_now(file.file)
        self._free.append(file)
        return True

    def _find_files(self) -> None:
        headless: list[WalFile] = []
        for name in self._disk.list(_DIRECTORY):
            number = name.removesuffix(".wal")
            if not number.isdecimal():
                continue
            slot = int(number)
            file = self._disk.open(f"{_DIRECTORY}/{name}")
            self._slots = max(self._slots, slot + 1)
            start, size = read_file_header(file)
            if start < 0:
                headless.append(WalFile(slot, file, 0, self._file_bytes))
            else:
                self._used.append(WalFile(slot, file, start, size))
        for found in headless:
            self._place_headless(found)
        self._used.sort(key=_file_start)

    def _place_headless(self, file: WalFile) -> None:
        """Place a file without a valid header: it is new, or its header is damaged and its frames show its position."""
        data = file.file.read_at(0, file.file.size())
        start = _start_by_frames(data) if data[:4] != _FREE else -1
        others = sorted([other.start for other in self._used if other.start >= start])
        if start < 0 or (others and others[0] == start):
            self._free.append(file)
            return
        file.start = start
        if others:
            file.size_bytes = others[0] - start
        self._used.append(file)

    def _chain(self, from_position: int) -> list[WalFile]:
        """The files with `from_position` and everything after it; the others are free."""
        chain: list[WalFile] = []
        for file in self._used:
            follows = file.start >= chain[-1].end if chain else file.end > from_position
            if follows:
                chain.append(file)
            elif file not in self._free:
                self._free.append(file)
        self._used = list(chain)
        return chain

    def _walk(self, chain: list[WalFile], from_position: int, durable: int) -> Iterator[Frame | Damage]:
        """Frames in order. A gap before `durable` is damage and is skipped; the first gap after it ends the log."""
        position = from_position
        incarnation = 0
        for file in chain:
            if file.start > position:  # A whole file in between is lost, or this file is a leftover from before a cut.
                if position >= durable:
                    return
                yield Damage(position, file.start)
            position = max(position, file.start + FILE_HEADER_BYTES)
            data = file.file.read_at(0, file.size_bytes)
            while position + FRAME_HEADER_BYTES <= file.end:
                frame = decode_frame(data, position - file.start, position)
                if frame is None:
                    frame = self._correct(data, file, position, incarnation)
                if frame is None or frame.incarnation < incarnation:
                    found = _next_frame(data, file.start, position + 1, incarnation)
                    if position >= durable:
                        self.torn_bytes = _torn_bytes(data, file.start, position, found, incarnation)
                        return
                    yield Damage(position, found if found >= 0 else file.end)
                    if found < 0:
                        position = file.end
                        break
                    position = found
                    continue
                incarnation = frame.incarnation
                self.incarnation = max(self.incarnation, incarnation + 1)
                yield frame
                if frame.is_last:
                    position = file.end
                    break
                position += frame.size_bytes

    def _correct(self, data: bytes, file: WalFile, position: int, incarnation: int) -> Frame | None:
        """The frame at `position` if exactly one of its bits has flipped; notes the position of the wrong byte."""
        found = correct_frame(data, position - file.start, position)
        frame = decode_frame(found[0], 0, position) if found is not None else None
        if found is not None and frame is not None and frame.incarnation >= incarnation:
            self.corrections[position + found[1]] = found[0][found[1]]
        return frame


def _file_start(file: WalFile) -> int:
    return file.start


def read_file_header(file: File) -> tuple[int, int]:
    """Start and size of a file; a start of -1 if the file was never used."""
    head = file.read_at(0, FILE_HEADER_BYTES)
    if len(head) < FILE_HEADER_BYTES or head[:4] != _MAGIC:
        return -1, 0
    size = _HEADER.size
    if crc32c(head[:size]) != int.from_bytes(head[size : size + 4], "big"):
        return -1, 0
    _, version, _, start, size_bytes = _HEADER.unpack_from(head)
    if version > _VERSION:
        raise LonghallError(
            Code.UNSUPPORTED_VERSION, f"{file.path} is from a newer Longhall (format {version}): start that version"
        )
    return start, size_bytes


def _start_by_frames(data: bytes) -> int:
    """The position of a file in the log according to its first valid frame; -1 if there is none."""
    at = data.find(FRAME_MAGIC_BYTES, FILE_HEADER_BYTES)
    while at >= 0:
        position = frame_position(data, at)
        if position >= at and decode_frame(data, at, position) is not None:
            return position - at
        at = data.find(FRAME_MAGIC_BYTES, at + 1)
    return -1


def _next_frame(data: bytes, file_start: int, position: int, incarnation: int) -> int:
    """The position of the next valid frame in a file, or -1."""
    # The rest of most files is zeros, and the search for one byte is ten times as fast as that for several.
    at = data.find(FRAME_MAGIC_BYTES[:1], position - file_start)
    if at >= 0:
        at = data.find(FRAME_MAGIC_BYTES, at)
    while at >= 0:
        frame = decode_frame(data, at, file_start + at)
        if frame is not None and frame.incarnation >= incarnation:
            return file_start + at
        at = data.find(FRAME_MAGIC_BYTES, at + 1)
    return -1


def _torn_bytes(data: bytes, file_start: int, position: int, found: int, incarnation: int) -> int:
    """The size of incomplete frames after the last valid one; `found` is the position of the next valid one."""
    end = position + frame_size(data, position - file_start, position)
    while found >= 0:
        end = max(end, found + max(frame_size(data, found - file_start, found), 1))  # The search always advances.
        found = _next_frame(data, file_start, end, incarnation)
    return end - position

"""The program of the writer: a process that writes bytes from shared memory to the disk, outside of the loop.

It is run by path, without `site` and without the package, like the syncer. Requests and answers are datagrams of a Unix
socket pair, numbers are little-endian:

    request   number u64 | slot u32 | flags u32 | position u64 | place u64 | size u64
              flags: 1 the file's descriptor is attached (SCM_RIGHTS), 2 close the slot; size 0 writes nothing
    answer    number u64 | errno u32        in the order of the requests; none for request number 0

`place` is the position of the bytes in the shared memory, with the same distance from a block's start as `position` in
the file, so that whole blocks are written without a copy (O_DIRECT) and without using the page cache. The file's bytes
before them in their first block are read into the memory before `place`, and the bytes after the last whole block are
written normally. No other process writes to these bytes meanwhile.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import _socket
import errno
import mmap
import posix
import sys

BLOCK_BYTES = 4096
REQUEST_BYTES = 40
OPENS = 1
CLOSES = 2


class Writer:
    """Two descriptors by slot: an ordinary one and a direct one, or -1 where the file system has no direct writes."""

    def __init__(self, socket: _socket.socket, memory: memoryview) -> None:
        self.socket = socket
        self.memory = memory
        self.files: dict[int, tuple[int, int]] = {}

    def run(self) -> None:
        while True:
            message, ancillary, _, _ = self.socket.recvmsg(REQUEST_BYTES, 64)
            if not message:
                posix._exit(0)
            numbers = [int.from_bytes(message[at : at + 8], "little") for at in range(0, REQUEST_BYTES, 8)]
            number, head, position, place, size = numbers
            slot, flags = head & 0xFFFFFFFF, head >> 32
            if flags & OPENS:
                descriptor = int.from_bytes(ancillary[0][2][:4], sys.byteorder)
                self.files[slot] = (descriptor, _open_direct(descriptor))
            code = self.write(slot, position, place, size) if size else 0
            if flags & CLOSES:
                for descriptor in self.files.pop(slot):
                    if descriptor >= 0:
                        posix.close(descriptor)
            if number:
                self.socket.send(number.to_bytes(8, "little") + code.to_bytes(4, "little"))

    def write(self, slot: int, position: int, place: int, size: int) -> int:
        """Write and return 0, or an errno; then any part of the bytes may have been written."""
        ordinary, direct = self.files[slot]
        end = position + size
        try:
            if direct >= 0 and (end // BLOCK_BYTES) * BLOCK_BYTES > position:
                before = position % BLOCK_BYTES
                if before:
                    room = self.memory[place - before : place]
                    if posix.preadv(ordinary, [room], position - before) != before:
                        return errno.EIO
                whole = (end // BLOCK_BYTES) * BLOCK_BYTES - (position - before)
                self.put(direct, position - before, place - before, whole)
                done = whole - before
                position, place, size = position + done, place + done, size - done
            self.put(ordinary, position, place, size)
        except OSError as error:
            return error.errno or errno.EIO
        return 0

    def put(self, descriptor: int, position: int, place: int, size: int) -> None:
        written = 0
        while written < size:  # A short write, as before the disk is full: the next call raises.
            part = self.memory[place + written : place + size]
            step = posix.pwrite(descriptor, part, position + written)
            if step == 0:
                raise OSError(errno.EIO, "a write wrote no bytes")
            written += step


def _open_direct(descriptor: int) -> int:
    try:
        return posix.open(f"/proc/self/fd/{descriptor}", posix.O_RDWR | posix.O_DIRECT | posix.O_CLOEXEC)
    except OSError:
        return -1  # For example a file system in memory.


if __name__ == "__main__":
    _signal.signal(_signal.SIGINT, _signal.SIG_IGN)
    _signal.signal(_signal.SIGTERM, _signal.SIG_IGN)
    _signal.signal(_signal.SIGHUP, _signal.SIG_IGN)
    shared = mmap.mmap(int(sys.argv[2]), 0)
    try:
        Writer(_socket.socket(fileno=int(sys.argv[1])), memoryview(shared)).run()
    except (BrokenPipeError, ConnectionResetError):
        posix._exit(0)  # The parent has ended.

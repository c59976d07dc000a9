"""One open file: positioned reads and writes, and reads that never wait.

Invariant: the descriptor stays open while a thread or a sync still needs it, even after `close`, because a reused
number would direct a read or a sync to another file.
"""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Callable, Sequence
from typing import Final, final

from longhall.world.ports import Buffer
from longhall.world.real.direct_read import read_direct

IOV_MAX: Final = 1024
SCRATCH_BYTES: Final = 128 * 1024  # Larger reads are not worth the second copy.
PROBE_BYTES: Final = 128 * 1024  # The kernel's usual read-ahead, which it reads as a whole.
READERS_FOLLOWED_MAX: Final = 4  # Tracked sequential readers of cold bytes in one file.
FALLOC_FL_KEEP_SIZE: Final = 1
# Without this call a later write may run out of space and then reports it.
_NOT_SUPPORTED: Final = (errno.EOPNOTSUPP, errno.ENOSYS)

_MEMORY_FILE_SYSTEMS: Final = (0x01021994, 0x858458F6)  # tmpfs and ramfs, by their type in statfs.
_STATFS_BYTES: Final = 256  # More than any of its layouts; the type is the first word of each.

_libc = ctypes.CDLL(None, use_errno=True)
_fallocate = getattr(_libc, "fallocate64", _libc.fallocate)
_fallocate.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)

# Target of reads that do not wait, because the kernel may return less than requested and `bytes` cannot shrink. The
# loop is the only user and copies out before it returns, so one buffer per process is enough.
_scratch = memoryview(bytearray(SCRATCH_BYTES))
_probe = [bytearray(1)]


@final
class RealFile:
    """A descriptor with its path. `on_close` is called once, when the descriptor is no longer in use."""

    def __init__(self, path: str, descriptor: int, on_close: Callable[[RealFile], None]) -> None:
        self.path = path
        self.descriptor = descriptor
        self.closed = False
        self._on_close = on_close
        self._holders = 0
        self._read_to: list[int] = []  # Where readers of cold bytes stopped, the latest last.

    def write_at(self, position: int, buffers: Sequence[Buffer]) -> int:
        total = 0
        for start in range(0, len(buffers), IOV_MAX):
            part = buffers if len(buffers) <= IOV_MAX else buffers[start : start + IOV_MAX]
            size = sum(map(len, part)) if len(part) != 1 else len(part[0])
            written = os.pwritev(self.descriptor, part, position + total)
            if written < size:
                self._write_rest(position + total, b"".join(part), written)
            total += size
        return total

    def _write_rest(self, position: int, joined: bytes, written: int) -> None:
        """Continue a short write until the kernel takes the rest or raises, as it does when the disk is full."""
        view = memoryview(joined)
        while written < len(joined):
            step = os.pwrite(self.descriptor, view[written:], position + written)
            if step == 0:
                raise OSError(errno.EIO, "a write wrote no bytes", self.path)
            written += step

    def read_at(self, position: int, size: int) -> bytes:
        data = os.pread(self.descriptor, size, position)
        if len(data) == size or not data:
            return data
        parts = [data]
        got = len(data)
        while got < size:  # Either the end of the file, or one call reached its limit of 2 GiB.
            data = os.pread(self.descriptor, size - got, position + got)
            if not data:
                break
            parts.append(data)
            got += len(data)
        return b"".join(parts) if len(parts) > 1 else parts[0]

    def read_at_nowait(self, position: int, size: int) -> bytes | None:
        if size > SCRATCH_BYTES:
            return self._read_large_nowait(position, size)
        try:
            got = os.preadv(self.descriptor, [_scratch[:size]], position, os.RWF_NOWAIT)
        except BlockingIOError:
            return None
        except OSError as error:
            if error.errno not in _NOT_SUPPORTED:
                raise
            # The file system does not support reads without waiting. If it is in memory, read; otherwise treat every
            # read as cold, which is correct and slower.
            return self.read_at(position, size) if _lives_in_memory(self.descriptor) else None
        if got < size and position + got < self.size():
            return None
        return bytes(_scratch[:got])

    def _read_large_nowait(self, position: int, size: int) -> bytes | None:
        """Probe every range that the kernel reads ahead at once, then read with one copy instead of two."""
        try:
            for at in range(position, position + size, PROBE_BYTES):
                os.preadv(self.descriptor, _probe, at, os.RWF_NOWAIT)
            os.preadv(self.descriptor, _probe, position + size - 1, os.RWF_NOWAIT)
        except BlockingIOError:
            return None
        except OSError as error:
            if error.errno in _NOT_SUPPORTED:
                return self.read_at(position, size) if _lives_in_memory(self.descriptor) else None
            raise
        return self.read_at(position, size)

    def read_from_disk(self, position: int, size: int) -> bytes:
        data = read_direct(f"/proc/self/fd/{self.descriptor}", position, size)
        if data is not None:
            return data
        cached = self.read_at_nowait(position, size)
        if cached is not None:
            return cached
        data = self.read_at(position, size)
        self.leave_memory(position, len(data))
        return data

    def reads_on(self, position: int, size: int, reach_bytes: int) -> bool:
        """True if a cold read continues near the end of an earlier one, so that read-ahead is useful."""
        for index, stopped in enumerate(self._read_to):
            if stopped - size <= position <= stopped + reach_bytes:
                del self._read_to[index]
                self._read_to.append(position + size)
                return True
        self._read_to.append(position + size)
        del self._read_to[:-READERS_FOLLOWED_MAX]
        return False

    def size(self) -> int:
        return os.fstat(self.descriptor).st_size

    def truncate(self, size: int) -> None:
        os.ftruncate(self.descriptor, size)

    def allocate(self, position: int, size: int) -> None:
        while _fallocate(self.descriptor, FALLOC_FL_KEEP_SIZE, position, size) != 0:
            code = ctypes.get_errno()
            if code == errno.EINTR:
                continue
            if code in _NOT_SUPPORTED:
                return
            raise OSError(code, os.strerror(code), self.path)

    def leave_memory(self, position: int, size: int) -> None:
        os.posix_fadvise(self.descriptor, position, size, os.POSIX_FADV_DONTNEED)

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            if self._holders == 0:
                self._finish()

    def hold(self) -> None:
        """Keep the descriptor open for a reader in a thread."""
        assert not self.closed, f"{self.path} is closed"
        self._holders += 1

    def release(self) -> None:
        self._holders -= 1
        if self._holders == 0 and self.closed:
            self._finish()

    def _finish(self) -> None:
        self._on_close(self)
        os.close(self.descriptor)
        self.descriptor = -1


def _lives_in_memory(descriptor: int) -> bool:
    buffer = (ctypes.c_ulong * (_STATFS_BYTES // ctypes.sizeof(ctypes.c_ulong)))()
    return _libc.fstatfs(descriptor, ctypes.byref(buffer)) == 0 and buffer[0] in _MEMORY_FILE_SYSTEMS

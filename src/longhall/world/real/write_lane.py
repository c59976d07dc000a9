"""The node's side of the writer: bytes into shared memory, requests out, answers in.

The memory is a ring, released in the order of the requests. A write that does not fit into it is refused, and so is
every write after the process has died: the caller then writes itself. The process and the memory are created with the
first request.

Requests of a node that was killed are still written, and must not overwrite what the next node writes: the process
holds a lock on the directory, and the next node waits until it has ended.
"""

from __future__ import annotations

import array
import asyncio
import errno
import fcntl
import mmap
import os
import select
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Sequence
from typing import Final, final

from longhall.world.ports import Buffer, Done
from longhall.world.real import writer
from longhall.world.real.file import RealFile
from longhall.world.real.writer import BLOCK_BYTES, CLOSES, OPENS

RING_BYTES: Final = 16 * 1024 * 1024
SLOTS_MAX: Final = 2048  # Files that the process holds open; then it closes all and starts over.
REQUESTS_MAX: Final = 512  # Requests in progress: fewer than the socket holds.
ANSWER_BYTES: Final = 12
LOCK_NAME: Final = "lock.writes"
LOCK_SECONDS_MAX: Final = 30.0  # For at most one ring of bytes.
_LOCK_STEP_SECONDS: Final = 0.005
_SOCKET_BUFFER_BYTES: Final = 1 << 20


def wait_for_writes(root: str) -> None:
    """Wait until the writer of an earlier node has ended; OSError if that takes too long."""
    path = os.path.join(root, LOCK_NAME)
    if os.path.exists(path):
        os.close(_locked(path))


def _locked(path: str) -> int:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    until = time.monotonic() + LOCK_SECONDS_MAX
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return descriptor
        except OSError as error:
            if error.errno != errno.EWOULDBLOCK or time.monotonic() > until:
                os.close(descriptor)
                sentence = "an earlier node still writes to the data directory: wait for its disk, or choose another"
                raise OSError(errno.EBUSY, sentence, path) from None
        time.sleep(_LOCK_STEP_SECONDS)


@final
class WriteLane:
    """One process that writes. Owned by the loop: no call is made from another thread."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._loop: asyncio.AbstractEventLoop | None = None
        self._socket: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._ring: mmap.mmap | None = None
        self._view = memoryview(b"")
        self._slots: dict[RealFile, int] = {}
        self._next_slot = 0
        self._next_number = 1
        self._waiting: deque[tuple[int, int, Done]] = deque()  # Number, end of its range in the ring, callback.
        self._head = 0  # Start of the next range; both counters only grow, and the ring repeats under them.
        self._free_to = RING_BYTES
        self._failed = False

    def write(self, file: RealFile, position: int, buffers: Sequence[Buffer], done: Done) -> bool:
        size = sum(map(len, buffers))
        if self._failed or len(self._waiting) >= REQUESTS_MAX:
            return False
        before = position % BLOCK_BYTES
        stretch = -(-(before + size) // BLOCK_BYTES) * BLOCK_BYTES
        at = self._head % RING_BYTES
        start = self._head if at + stretch <= RING_BYTES else self._head + RING_BYTES - at
        if stretch > RING_BYTES or start + stretch > self._free_to:
            return False
        if not self._attend():
            return False
        place = start % RING_BYTES + before
        at = place
        for buffer in buffers:
            end = at + len(buffer)
            self._view[at:end] = buffer
            at = end
        number = self._next_number
        if not self._request(number, file, position, place, size):
            return False
        self._next_number += 1
        self._head = start + stretch
        self._waiting.append((number, self._head, done))
        return True

    def finish(self) -> None:
        """Wait for all writes in progress and call their callbacks."""
        while self._waiting and self._socket is not None:
            poll = select.poll()
            poll.register(self._socket, select.POLLIN)
            poll.poll()
            self._on_readable()

    def forget(self, file: RealFile) -> None:
        """Close the file in the process as well, or a removed file would still occupy its space."""
        slot = self._slots.pop(file, None)
        if slot is not None and not self._failed:
            self._send(_message(0, slot, CLOSES, 0, 0, 0), -1)

    def close(self) -> None:
        self._fail(OSError(errno.ECANCELED, "the node no longer writes"))
        if self._process is not None:
            self._process.wait()
            self._process = None
        self._view.release()
        if self._ring is not None:
            self._ring.close()
            self._ring = None

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None else None

    def _start(self) -> None:
        lock = _locked(os.path.join(self._root, LOCK_NAME))
        memory = os.memfd_create("longhall-writes", os.MFD_CLOEXEC)
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            os.ftruncate(memory, RING_BYTES)
            ours.setblocking(False)
            ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SOCKET_BUFFER_BYTES)
            passed = (theirs.fileno(), memory, lock)  # The process owns the lock from now on, and only holds it.
            command = [sys.executable, "-I", "-S", writer.__file__, *map(str, passed)]
            self._process = subprocess.Popen(command, pass_fds=passed, stdin=subprocess.DEVNULL)
        self._ring = mmap.mmap(memory, RING_BYTES)
        self._view = memoryview(self._ring)
        os.close(memory)
        os.close(lock)
        self._socket = ours

    def _attend(self) -> bool:
        """Listen for answers on the calling loop; tests use one loop after another."""
        loop = asyncio.get_running_loop()
        if self._socket is None:
            try:
                self._start()
            except OSError:
                self._failed = True  # No process, no memory: the caller writes normally.
                return False
        if self._loop is not loop:
            assert self._socket is not None
            assert not self._waiting, "another loop still waits for its writes"
            self._loop = loop
            loop.add_reader(self._socket.fileno(), self._on_readable)
        return True

    def _request(self, number: int, file: RealFile, position: int, place: int, size: int) -> bool:
        slot = self._slots.get(file)
        if slot is not None:
            return self._send(_message(number, slot, 0, position, place, size), -1)
        if len(self._slots) >= SLOTS_MAX:
            for other in list(self._slots):
                self.forget(other)
        if not self._send(_message(number, self._next_slot, OPENS, position, place, size), file.descriptor):
            return False
        self._slots[file] = self._next_slot
        self._next_slot += 1
        return True

    def _send(self, message: bytes, descriptor: int) -> bool:
        if self._socket is None:
            return False
        ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [descriptor]))] if descriptor >= 0 else []
        try:
            self._socket.sendmsg([message], ancillary)
        except OSError as error:  # Includes a full socket, which the bound on requests prevents.
            assert self._loop is not None
            self._failed = True
            self._loop.call_soon(self._fail, error)
            return False
        return True

    def _on_readable(self) -> None:
        while self._socket is not None:
            try:
                answer = self._socket.recv(ANSWER_BYTES)
            except BlockingIOError:
                return
            except OSError:
                answer = b""
            if not answer:
                self._fail(OSError(errno.EIO, "the process that writes has died"))
                return
            number, end, done = self._waiting.popleft()
            assert number == int.from_bytes(answer[:8], "little"), "answers come in the order of the requests"
            self._free_to = end + RING_BYTES
            code = int.from_bytes(answer[8:ANSWER_BYTES], "little")
            done(OSError(code, os.strerror(code)) if code else None)

    def _fail(self, failure: OSError) -> None:
        self._failed = True
        if self._socket is not None:
            if self._loop is not None and not self._loop.is_closed():
                self._loop.remove_reader(self._socket.fileno())
            self._socket.close()
            self._socket = None
        waiting = list(self._waiting)
        self._waiting.clear()
        for _, _, done in waiting:
            done(failure)


def _message(number: int, slot: int, flags: int, position: int, place: int, size: int) -> bytes:
    return b"".join(value.to_bytes(8, "little") for value in (number, slot | flags << 32, position, place, size))

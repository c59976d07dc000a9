"""The node's side of a syncer: requests out, answers in, in order.

A lane starts its process with its first request and needs no running loop before that. It sends each descriptor once.
If the process dies, every open request and every later one fails: the durability of the writes is then unknown, and
only a restart can establish it.
"""

from __future__ import annotations

import array
import asyncio
import errno
import os
import socket
import struct
import subprocess
import sys
from collections import deque
from collections.abc import Sequence
from typing import Final, final

from longhall.world.ports import Done
from longhall.world.real import syncer
from longhall.world.real.file import RealFile

ANSWER_BYTES: Final = 12
ANSWERS_BYTES_MAX: Final = 4096
_SOCKET_BUFFER_BYTES: Final = 1 << 20


@final
class SyncLane:
    """One process that syncs. Owned by the loop: no call is made from another thread."""

    def __init__(self, name: str, *, together: bool = False, file_system: int = -1) -> None:
        """`file_system` is a descriptor on the file system that may be synced as a whole, opened before anything was
        written; -1 for none.
        """
        self._name = name
        self._options = ["together"] if together else []
        self._inherited = [] if file_system < 0 else [file_system]
        if file_system >= 0:
            self._options.append(f"syncfs={file_system}")
        self._loop: asyncio.AbstractEventLoop | None = None
        self._socket: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._slots: dict[RealFile, int] = {}
        self._next_slot = 0
        self._next_number = 1
        self._forgotten: list[int] = []
        self._waiting: deque[tuple[int, Done]] = deque()
        self._unsent: deque[tuple[bytes, list[int]]] = deque()
        self._failure: OSError | None = None

    def sync(self, files: Sequence[RealFile], done: Done) -> None:
        loop = asyncio.get_running_loop()
        if self._failure is not None:
            loop.call_soon(done, self._failure)
            return
        self._attend(loop)
        opened = [file for file in files if file not in self._slots]
        while len(opened) > syncer.DESCRIPTORS_MAX:
            self._request(0, opened[: syncer.DESCRIPTORS_MAX], ())
            opened = opened[syncer.DESCRIPTORS_MAX :]
        number = self._next_number
        self._next_number += 1
        self._waiting.append((number, done))
        self._request(number, opened, files)

    def forget(self, file: RealFile) -> None:
        """Close the file in the process as well, or a removed file would still occupy its space."""
        slot = self._slots.pop(file, None)
        if slot is not None and self._failure is None:
            self._forgotten.append(slot)
            self._request(0, (), ())

    def close(self) -> None:
        self._fail(OSError(errno.ECANCELED, f"the lane of {self._name} is closed"))
        if self._process is not None:
            self._process.wait()
            self._process = None

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None else None

    def _start(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            ours.setblocking(False)
            ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SOCKET_BUFFER_BYTES)
            os.set_inheritable(theirs.fileno(), True)
            command = [sys.executable, "-I", "-S", syncer.__file__, str(theirs.fileno()), *self._options]
            passed = [theirs.fileno(), *self._inherited]
            self._process = subprocess.Popen(command, pass_fds=passed, stdin=subprocess.DEVNULL)
        self._socket = ours

    def _attend(self, loop: asyncio.AbstractEventLoop) -> None:
        """Listen for answers on the calling loop; tests use one loop after another."""
        if self._socket is None:
            self._start()
        if self._loop is loop:
            return
        assert self._socket is not None
        assert not self._waiting, "another loop still waits for its syncs"
        self._loop = loop
        loop.add_reader(self._socket.fileno(), self._on_readable)

    def _request(self, number: int, opened: Sequence[RealFile], synced: Sequence[RealFile]) -> None:
        closed, self._forgotten = self._forgotten, []
        numbers = closed
        closed_count = len(closed)
        for file in opened:
            self._slots[file] = self._next_slot
            numbers.append(self._next_slot)
            self._next_slot += 1
        numbers.extend(self._slots[file] for file in synced)
        counts = (closed_count, len(opened), len(synced))
        message = struct.pack(f"<Q{3 + len(numbers)}I", number, *counts, *numbers)
        assert len(message) <= syncer.REQUEST_BYTES_MAX, "too many files in one sync"
        # The message that has to wait holds duplicates of its descriptors.
        if self._unsent or not self._send(message, [file.descriptor for file in opened]):
            self._unsent.append((message, [os.dup(file.descriptor) for file in opened]))

    def _send(self, message: bytes, descriptors: list[int]) -> bool:
        assert self._socket is not None
        ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))] if descriptors else []
        try:
            self._socket.sendmsg([message], ancillary)
        except BlockingIOError:
            if self._loop is not None and not self._unsent:
                self._loop.add_writer(self._socket.fileno(), self._on_writable)
            return False
        except OSError as error:
            self._fail_soon(error)
        return True

    def _on_writable(self) -> None:
        assert self._loop is not None
        assert self._socket is not None
        while self._unsent:
            message, descriptors = self._unsent[0]
            if not self._send(message, descriptors):
                return
            self._unsent.popleft()
            for descriptor in descriptors:
                os.close(descriptor)
        self._loop.remove_writer(self._socket.fileno())

    def _on_readable(self) -> None:
        assert self._socket is not None
        while self._socket is not None:
            try:
                answer = self._socket.recv(ANSWERS_BYTES_MAX)
            except BlockingIOError:
                return
            except OSError:
                answer = b""
            if not answer:
                self._fail(OSError(errno.EIO, f"the process that syncs {self._name} has died"))
                return
            number, done = self._waiting.popleft()
            assert number == int.from_bytes(answer[:8], "little"), "answers come in the order of the requests"
            code = int.from_bytes(answer[8:ANSWER_BYTES], "little")
            done(OSError(code, os.strerror(code)) if code else None)

    def _fail_soon(self, error: OSError) -> None:
        """Fail later, so that no `done` is called before its `sync` has returned."""
        assert self._loop is not None
        failure = OSError(errno.EIO, f"the process that syncs {self._name} has died: {error}")
        self._loop.call_soon(self._fail, failure)

    def _fail(self, failure: OSError) -> None:
        if self._failure is None:
            self._failure = failure
        if self._socket is not None:
            if self._loop is not None and not self._loop.is_closed():
                self._loop.remove_reader(self._socket.fileno())
                self._loop.remove_writer(self._socket.fileno())
            self._socket.close()
            self._socket = None
        for _, descriptors in self._unsent:
            for descriptor in descriptors:
                os.close(descriptor)
        self._unsent.clear()
        waiting = list(self._waiting)
        self._waiting.clear()
        for _, done in waiting:
            done(failure)

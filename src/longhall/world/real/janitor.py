"""The node's side of the janitor: slow jobs in a process of their own, cold reads and hashes in two threads each.

One job runs at a time; others wait in a bounded queue. The process starts with a job, ends when it has had none for a
while (it takes 20 MB, and a host of a cluster has several), and starts again after it died. The job that was running
then fails with OSError: jobs can safely be run again.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, TypeVar, cast, final

import msgspec

from longhall.errors import Code, LonghallError
from longhall.world.ports import File
from longhall.world.real.file import RealFile
from longhall.world.real.memory import MUCH_BYTES, give_back_memory

JOBS_WAITING_MAX: Final = 256
READS_WAITING_MAX: Final = 4096
READ_THREADS: Final = 2
COMPUTES_WAITING_MAX: Final = 256
COMPUTE_THREADS: Final = 2
IDLE_S: Final = 20.0  # After so long without a job, the process ends.
READAHEAD_BYTES: Final = 4 << 20
T = TypeVar("T")
_PROGRAM: Final = "longhall.world.real.janitor_process"


@final
class RealJanitor:
    """The janitor's process and threads. `jobs_module` is the module with the table BACKGROUND_JOBS."""

    def __init__(self, data_directory: str, jobs_module: str, idle_s: float = IDLE_S) -> None:
        self._data_directory = os.path.abspath(data_directory)
        self._jobs_module = jobs_module
        self._idle_s = idle_s
        self._ending: asyncio.TimerHandle | None = None
        self._turn = asyncio.Lock()
        self._jobs = 0
        self._reads = 0
        self._socket: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._readers: ThreadPoolExecutor | None = None
        self._computes = 0
        self._computers: ThreadPoolExecutor | None = None

    async def run(self, job: str, arguments: dict[str, object]) -> dict[str, object]:
        if self._jobs >= JOBS_WAITING_MAX:
            raise LonghallError(Code.OVERLOADED, f"{JOBS_WAITING_MAX} jobs wait for the janitor")
        self._jobs += 1
        try:
            async with self._turn:
                request = msgspec.msgpack.encode([job, arguments])
                answer = await self._exchange(request)
        finally:
            self._jobs -= 1
            self._end_later()
        if len(request) > MUCH_BYTES:
            del request
            give_back_memory()
        return _result(job, answer)

    async def read(self, file: File, position: int, size: int) -> bytes:
        assert isinstance(file, RealFile), "not a RealFile"
        if self._reads >= READS_WAITING_MAX:
            raise LonghallError(Code.OVERLOADED, f"{READS_WAITING_MAX} reads wait for the disk")
        if self._readers is None:
            self._readers = ThreadPoolExecutor(READ_THREADS, thread_name_prefix="cold-read")
        self._reads += 1
        file.hold()
        # The thread cannot be stopped, so the descriptor is held until it has ended, even if the caller is cancelled.
        ahead_bytes = READAHEAD_BYTES if file.reads_on(position, size, READAHEAD_BYTES) else 0
        future = asyncio.get_running_loop().run_in_executor(self._readers, _read, file, position, size, ahead_bytes)
        future.add_done_callback(lambda _: self._read_ended(file))
        return await asyncio.shield(future)

    async def compute(self, function: Callable[[], T]) -> T:
        if self._computes >= COMPUTES_WAITING_MAX:
            raise LonghallError(Code.OVERLOADED, f"{COMPUTES_WAITING_MAX} computations wait for a thread")
        if self._computers is None:
            self._computers = ThreadPoolExecutor(COMPUTE_THREADS, thread_name_prefix="compute")
        self._computes += 1
        future = asyncio.get_running_loop().run_in_executor(self._computers, function)
        future.add_done_callback(self._computed)
        return await asyncio.shield(future)

    def _computed(self, future: asyncio.Future[Any]) -> None:
        self._computes -= 1

    def close(self) -> None:
        if self._ending is not None:
            self._ending.cancel()
        self._stop()
        if self._readers is not None:
            self._readers.shutdown(wait=True)
            self._readers = None
        if self._computers is not None:
            self._computers.shutdown(wait=True, cancel_futures=True)
            self._computers = None

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None else None

    def _end_later(self) -> None:
        if self._ending is not None:
            self._ending.cancel()
        self._ending = asyncio.get_running_loop().call_later(self._idle_s, self._end_if_idle)

    def _end_if_idle(self) -> None:
        if self._jobs == 0:
            self._stop()

    def _read_ended(self, file: RealFile) -> None:
        self._reads -= 1
        file.release()

    async def _exchange(self, request: bytes) -> Mapping[str, Any]:
        if self._process is not None and self._process.poll() is not None:
            self._stop()
        if self._socket is None:
            self._start()
        assert self._socket is not None
        loop = asyncio.get_running_loop()
        whole = False
        try:
            await loop.sock_sendall(self._socket, len(request).to_bytes(4, "little") + request)
            size = int.from_bytes(await _receive(self._socket, 4), "little")
            answer = await _receive(self._socket, size)
            whole = True
        except OSError as error:
            raise OSError(errno.EIO, f"the janitor process died during a job: {error}") from error
        finally:
            if not whole:  # The process died, or the caller was cancelled: a new process has no stale answer.
                self._stop()
        return cast(Mapping[str, Any], msgspec.msgpack.decode(answer))

    def _start(self) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            ours.setblocking(False)
            command = [
                sys.executable,
                "-P",
                "-m",
                _PROGRAM,
                str(theirs.fileno()),
                self._data_directory,
                self._jobs_module,
            ]
            self._process = subprocess.Popen(command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL)
        self._socket = ours

    def _stop(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


def _read(file: RealFile, position: int, size: int, ahead_bytes: int) -> bytes:
    # The kernel's own read-ahead runs inside a read, possibly one of the loop: it cost other readers 2 ms each time. In
    # this thread it delays nothing.
    os.posix_fadvise(file.descriptor, 0, 0, os.POSIX_FADV_RANDOM)
    data = file.read_at(position, size)
    if ahead_bytes:
        os.posix_fadvise(file.descriptor, position + len(data), ahead_bytes, os.POSIX_FADV_WILLNEED)
    return data


async def _receive(source: socket.socket, size: int) -> bytes:
    loop = asyncio.get_running_loop()
    buffer = bytearray()
    while len(buffer) < size:
        part = await loop.sock_recv(source, min(size - len(buffer), 1 << 20))
        if not part:
            raise ConnectionResetError(errno.ECONNRESET, "the janitor closed its socket")
        buffer += part
    return bytes(buffer)


def _result(job: str, answer: Mapping[str, Any]) -> dict[str, object]:
    match answer["outcome"]:
        case "done":
            return cast(dict[str, object], answer["result"])
        case "os":
            raise OSError(answer["errno"], answer["message"], answer["path"])
        case "refused":
            raise LonghallError(Code(answer["code"]), answer["message"])
        case _:
            raise RuntimeError(f"the job {job} failed:\n{answer['message']}")

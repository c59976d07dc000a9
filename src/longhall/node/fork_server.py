"""The fork server of a host: it starts the processes of wings as forks of a process that has imported everything.

A wing process takes about 40 MB, nearly all of it code that every one of them has. A fork shares those pages and
imports nothing again. The server is forked from the main process before there is an event loop, a thread or a secret,
does nothing but fork and wait, and ends when the main process ends.

    main process  -- request: its standard input, its status pipe -->  fork server  -- fork -->  wing process
                  <-- reply: its number, or why it was not started --
                  <-- status pipe: the exit code, then the end of the pipe

The fork server and the process itself hold the status pipe. So its end is the end of the process, also if the fork
server has died. Then `spawn` fails, and the caller has to start processes in another way.
"""

from __future__ import annotations

import contextlib
import errno
import gc
import os
import select
import signal
import socket
import subprocess
import sys
import traceback
from collections.abc import Callable
from typing import Final, NoReturn, final

from longhall.world.real.process_name import name_process

SPAWN_S_MAX: Final = 2.0
UNKNOWN: Final = 255  # The exit code of a process that outlived the fork server, so that nobody has read it.
_REQUEST: Final = b"f"
_REPLY_BYTES: Final = 8
_CODE_BYTES_MAX: Final = 16
_FAILED: Final = 1
_IGNORED: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)  # The fork server ends with the main process.

NAME: Final = "fork-server"

Program = Callable[[], int]


@final
class ForkedProcess:
    """A process that the fork server has started, with what a supervisor needs of `subprocess.Popen`."""

    def __init__(self, pid: int, stdin: int, status: int) -> None:
        self.pid = pid
        self.stdin = os.fdopen(stdin, "wb")
        self.returncode: int | None = None
        self._status = status

    def poll(self) -> int | None:
        """The exit code, negative for a signal; None while the process runs."""
        if self.returncode is None and _is_readable(self._status, 0.0):
            self._read_code()
        return self.returncode

    def wait(self, seconds: float) -> int:
        """Wait for the end of the process. Raises subprocess.TimeoutExpired."""
        if self.returncode is None:
            if not _is_readable(self._status, seconds):
                raise subprocess.TimeoutExpired(f"process {self.pid}", seconds)
            self._read_code()
        assert self.returncode is not None
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _read_code(self) -> None:
        code = os.read(self._status, _CODE_BYTES_MAX)
        os.close(self._status)
        self.returncode = int(code) if code else UNKNOWN


@final
class ForkServer:
    """The main process' side of its fork server, which runs `program` in every process that it starts."""

    def __init__(self, program: Program) -> None:
        """Fork the server. The caller has no event loop and no other thread yet."""
        self._socket, other = socket.socketpair()
        self._socket.settimeout(SPAWN_S_MAX)
        gc.collect()
        gc.freeze()  # A collection writes to every object that it visits, and so copies its page.
        if os.fork() == 0:
            self._socket.close()
            _Server(other, program).run()
        other.close()

    def spawn(self) -> ForkedProcess:
        """Start a process. Raises OSError: BrokenPipeError and TimeoutError if the server itself is lost."""
        for_process, stdin = os.pipe()
        status, for_server = os.pipe()
        try:
            socket.send_fds(self._socket, [_REQUEST], [for_process, for_server])
            reply = self._socket.recv(_REPLY_BYTES)
            if not reply:
                raise BrokenPipeError(errno.EPIPE, "the fork server has ended")
            pid = int.from_bytes(reply, "little", signed=True)
            if pid < 0:
                raise OSError(-pid, os.strerror(-pid))
        except OSError:
            os.close(stdin)
            os.close(status)
            raise
        finally:
            os.close(for_process)
            os.close(for_server)
        return ForkedProcess(pid, stdin, status)

    def close(self) -> None:
        """End the server. The processes that it has started go on."""
        self._socket.close()


@final
class _Server:
    """The loop of the fork server: it forks on request and passes on exit codes."""

    def __init__(self, requests: socket.socket, program: Program) -> None:
        self._requests = requests
        self._program = program
        self._status: dict[int, int] = {}  # Of each process that runs: its status pipe.
        self._woken, self._waker = socket.socketpair()

    def run(self) -> NoReturn:
        name_process(NAME)
        for number in _IGNORED:
            signal.signal(number, signal.SIG_IGN)
        self._waker.setblocking(False)
        self._woken.setblocking(False)
        signal.set_wakeup_fd(self._waker.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, _do_nothing)
        poller = select.poll()
        poller.register(self._requests, select.POLLIN)
        poller.register(self._woken, select.POLLIN)
        while True:
            ready = {descriptor for descriptor, _ in poller.poll()}
            if self._woken.fileno() in ready:
                with contextlib.suppress(BlockingIOError):
                    self._woken.recv(4096)
                self._reap()
            if self._requests.fileno() in ready:
                self._answer()

    def _answer(self) -> None:
        try:
            request, descriptors, _, _ = socket.recv_fds(self._requests, len(_REQUEST), 2)
        except OSError:
            os._exit(_FAILED)
        if not request:
            os._exit(0)  # The main process has ended.
        stdin, status = descriptors
        try:
            pid = os.fork()
        except OSError as error:
            pid = -(error.errno or errno.EAGAIN)
        if pid == 0:
            self._become(stdin)
        os.close(stdin)
        if pid > 0:
            self._status[pid] = status
        else:
            os.close(status)
        try:
            self._requests.sendall(pid.to_bytes(_REPLY_BYTES, "little", signed=True))
        except OSError:
            os._exit(_FAILED)

    def _become(self, stdin: int) -> NoReturn:
        """Be the new process. It keeps its own status pipe open, which closes with it, and no other."""
        signal.set_wakeup_fd(-1)
        for number in (*_IGNORED, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        for one in (self._requests, self._woken, self._waker):
            one.close()
        for descriptor in self._status.values():
            os.close(descriptor)
        os.dup2(stdin, 0)
        os.close(stdin)
        os._exit(_exit_code(self._program))

    def _reap(self) -> None:
        """Pass on the exit codes of processes that have ended."""
        while self._status:
            pid, code = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            status = self._status.pop(pid)
            with contextlib.suppress(BrokenPipeError):
                os.write(status, str(os.waitstatus_to_exitcode(code)).encode())
            os.close(status)


def _exit_code(program: Program) -> int:
    """Run the program as the interpreter runs a main program."""
    try:
        code = program()
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
        code = end.code if isinstance(end.code, int) else _FAILED if end.code else 0
    except BaseException:
        traceback.print_exc()
        code = _FAILED
    with contextlib.suppress(OSError):
        sys.stdout.flush()
        sys.stderr.flush()
    return code & 0xFF


def _is_readable(descriptor: int, seconds: float) -> bool:
    poller = select.poll()
    poller.register(descriptor, select.POLLIN)
    return bool(poller.poll(seconds * 1000))


def _do_nothing(_number: int, _frame: object) -> None:
    """Handle SIGCHLD, so that it wakes the loop."""

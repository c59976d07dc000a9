"""Forks Spark's Python out of one process that has imported everything: each is there at once.

    stub        what Spark starts in place of Python: hands its words, environment and standard files over, and ends as
                what was forked for it ends
    nursery     imports once what daemons and workers need, and forks a keeper for every stub
    keeper      forks the daemon or worker, tells the stub how it ended, and ends it when the stub is killed

A daemon for each kind of worker, and a process for each stream: starting Python for all of them was a third of the time
that these tests took. What has threads must not fork, so what is imported is kept from starting any, and that is looked
at.
"""

from __future__ import annotations

import importlib
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import IO, Final, Self

WITHOUT_THREADS: Final = {"OPENBLAS_NUM_THREADS": "1", "JE_ARROW_MALLOC_CONF": "background_thread:false"}
MODULES: Final = (
    "pandas",
    "pyarrow.compute",
    "pyarrow.fs",
    "pyarrow.parquet",
    "pyspark.worker",
    "pyspark.sql.streaming.python_streaming_source_runner",
    "pyspark.sql.worker.commit_data_source_write",
    "pyspark.sql.worker.create_data_source",
    "pyspark.sql.worker.data_source_pushdown_filters",
    "pyspark.sql.worker.lookup_data_sources",
    "pyspark.sql.worker.plan_data_source_read",
    "pyspark.sql.worker.python_streaming_sink_runner",
    "pyspark.sql.worker.write_into_data_source",
    "longhall.pipeline.archive.tasks",
    "longhall.pipeline.queue_source",
    "longhall.pipeline.replay.player",
    "longhall.pipeline.source",
    "longhall.pipeline.stream",
    "longhall.pipeline.sink",
    "longhall.pipeline.partition_reader",
    "longhall.pipeline.task_writer",
)
MESSAGE_BYTES_MAX: Final = 1 << 20
STUB: Final = """#!{python} -IS
import json, os, socket, sys

if sys.argv[1:2] != ["-m"]:
    os.execv({python!r}, [{python!r}, *sys.argv[1:]])
with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as line:
    line.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, {size})
    line.connect({place!r})
    told = {{"words": sys.argv[2:], "environment": dict(os.environ), "directory": os.getcwd()}}
    socket.send_fds(line, [json.dumps(told).encode()], [0, 1, 2])
    for number in (0, 1):
        os.close(number)
    code = line.recv(4)
os._exit(int(code) if code else 1)
"""


class Nursery:
    """Use it in a `with`; `python` is what Spark takes for its Python."""

    def __init__(self, home: Path) -> None:
        self.python = str(home / "python")
        self._place = str(home / "line")
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        stub = Path(self.python)
        stub.write_text(STUB.format(python=sys.executable, place=self._place, size=MESSAGE_BYTES_MAX))
        stub.chmod(0o755)
        environment = {**os.environ, **WITHOUT_THREADS}
        command = [sys.executable, __file__, self._place]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == b"ready\n", "the nursery did not open"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process is not None
        pipes: tuple[IO[bytes] | None, ...] = (self._process.stdin, self._process.stdout)
        for pipe in pipes:
            assert pipe is not None
            pipe.close()
        self._process.wait(60)


def main(place: str) -> None:
    """Fork until the parent closes its end."""
    for name in MODULES:
        importlib.import_module(name)
    assert len(os.listdir("/proc/self/task")) == 1, "something that was imported has threads"
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as door:
        door.bind(place)
        door.listen(64)
        os.write(1, b"ready\n")
        while True:
            ready, _, _ = select.select([0, door.fileno()], [], [])
            if 0 in ready:
                return
            line, _ = door.accept()
            if os.fork() == 0:
                door.close()
                keep(line)
            line.close()


def keep(line: socket.socket) -> None:
    """The keeper of one stub, from its beginning to its end."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    told, files, _, _ = socket.recv_fds(line, MESSAGE_BYTES_MAX, 3)
    child = os.fork()
    if child == 0:
        line.close()
        become(json.loads(told), files)
    for number in (0, 1, 2, *files):
        os.close(number)
    ended = os.pidfd_open(child)
    ready, _, _ = select.select([line.fileno(), ended], [], [])
    if ended not in ready:
        os.kill(child, signal.SIGTERM)  # The stub was killed.
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    try:
        line.send(b"%d" % (code if code >= 0 else 128 - code))
    except OSError:
        pass
    os._exit(0)


def become(told: dict[str, object], files: list[int]) -> None:
    """What Python would be that is started with these words."""
    words, environment = told["words"], told["environment"]
    assert isinstance(words, list)
    assert isinstance(environment, dict)
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    os.chdir(str(told["directory"]))
    sys.path[0] = str(told["directory"])
    os.environ.clear()
    os.environ.update(environment)
    sys.stdin, sys.stdout, sys.stderr = os.fdopen(0), os.fdopen(1, "w"), os.fdopen(2, "w")
    sys.path += [each for each in environment.get("PYTHONPATH", "").split(os.pathsep) if each not in sys.path]
    sys.argv = words
    code = 0
    try:
        runpy.run_module(words[0], run_name="__main__", alter_sys=True)
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    except BaseException:
        sys.excepthook(*sys.exc_info())
        code = 1
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            pass
    os._exit(code)


if __name__ == "__main__":
    main(sys.argv[1])

"""The supervisor of the wing processes on one host: starts them, restarts those that died, stops them.

The main process may discard its state and start a new life; the wing processes continue through that, so the
supervisor is handed from one life to the next. They end with the main process, because their standard input ends.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import subprocess
import sys
from collections.abc import Callable
from typing import Final, final

import msgspec

from longhall.coordination.ports import ReplicationGroup
from longhall.node.fork_server import ForkedProcess, ForkServer
from longhall.node.group_process import PROGRAM, WingOrders
from longhall.node.settings import Settings

LOOK_S: Final = 0.1
PAUSE_S_FIRST: Final = 0.2  # Before a restart; doubled each time,
PAUSE_S_MAX: Final = 10.0  # up to this.
CALM_S: Final = 60.0  # A process that ran this long restarts after the first pause again.
STOP_S_MORE: Final = 60.0  # For a process to stop, beyond its time to drain.

_log = logging.getLogger("longhall.wings")


@final
class Ward:
    """One wing and its current process, if any."""

    def __init__(self, wing: ReplicationGroup) -> None:
        self.wing = wing
        self.process: subprocess.Popen[bytes] | ForkedProcess | None = None
        self.began_s = 0.0
        self.pause_s = PAUSE_S_FIRST
        self.next_s = 0.0  # The process is not started before this time.
        self.stopping = False

    @property
    def pid(self) -> int:
        return self.process.pid if self.process is not None else 0

    @property
    def runs(self) -> bool:
        return self.process is not None and self.process.poll() is None


@final
class GroupSupervisor:
    """The wing processes of this host, by wing. Invariant: a wing has at most one process at a time."""

    def __init__(self, fork_server: ForkServer | None = None) -> None:
        self.wards: dict[str, Ward] = {}
        self.settings_for: Callable[[ReplicationGroup], Settings] | None = None  # Set by the current life of the node.
        self._fork_server = fork_server  # None: each process is an interpreter of its own.
        self._wanted: dict[str, ReplicationGroup] = {}
        self._ending = False

    def want(self, wings: list[ReplicationGroup]) -> None:
        """Set the wings that have a process on this host. All others are stopped."""
        self._wanted = {wing.name: wing for wing in wings}
        for wing in wings:
            if wing.name not in self.wards:
                self.wards[wing.name] = Ward(wing)

    async def mind(self) -> None:
        """Start and stop processes until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            for ward in list(self.wards.values()):
                self._look_at(ward, loop.time())
            await asyncio.sleep(LOOK_S)

    def _look_at(self, ward: Ward, now_s: float) -> None:
        wanted = ward.wing.name in self._wanted and not self._ending
        if ward.runs:
            if not wanted and not ward.stopping:
                ward.stopping = True
                _send(ward, signal.SIGTERM)
            return
        if ward.process is not None:
            self._ended(ward, now_s)
        if not wanted:
            del self.wards[ward.wing.name]
        elif now_s >= ward.next_s and self.settings_for is not None:
            self._start(ward, self.settings_for(ward.wing), now_s)

    def _start(self, ward: Ward, settings: Settings, now_s: float) -> None:
        try:
            process = self._spawn()
        except OSError as error:
            _log.error("a wing could not be started", extra={"wing": ward.wing.name, "reason": str(error)})
            ward.next_s = now_s + PAUSE_S_MAX
            return
        ward.process, ward.began_s, ward.stopping = process, now_s, False
        assert process.stdin is not None
        try:
            process.stdin.write(msgspec.json.encode(WingOrders(wing=ward.wing, settings=settings)) + b"\n")
            process.stdin.flush()  # The pipe stays open until this process ends.
        except OSError as error:
            _log.warning("a wing process ended before its start", extra={"wing": ward.wing.name, "reason": str(error)})

    def _spawn(self) -> subprocess.Popen[bytes] | ForkedProcess:
        if self._fork_server is not None:
            try:
                return self._fork_server.spawn()
            except (ConnectionError, TimeoutError) as error:
                _log.warning("the fork server is lost; wings take more memory", extra={"reason": str(error)})
                self._fork_server.close()
                self._fork_server = None
        return subprocess.Popen([sys.executable, "-P", "-m", PROGRAM], stdin=subprocess.PIPE)

    def _ended(self, ward: Ward, now_s: float) -> None:
        assert ward.process is not None
        if ward.process.stdin is not None:
            ward.process.stdin.close()
        code, ward.process = ward.process.returncode, None
        if ward.stopping:
            return
        ward.pause_s = PAUSE_S_FIRST if now_s - ward.began_s > CALM_S else min(2 * ward.pause_s, PAUSE_S_MAX)
        ward.next_s = now_s + ward.pause_s
        told = {"wing": ward.wing.name, "code": code, "again_in_s": ward.pause_s}
        _log.warning("a wing process ended and is restarted", extra=told)

    def tell(self, number: signal.Signals) -> None:
        """Send a signal to all processes."""
        for ward in self.wards.values():
            _send(ward, number)

    async def stop(self, seconds: float) -> None:
        """Stop all processes; kill those that take longer than their time."""
        self._ending = True
        self.tell(signal.SIGTERM)
        running = [ward.process for ward in self.wards.values() if ward.runs and ward.process is not None]
        waits = [asyncio.to_thread(process.wait, seconds + STOP_S_MORE) for process in running]
        for process, ended in zip(running, await asyncio.gather(*waits, return_exceptions=True), strict=True):
            if isinstance(ended, subprocess.TimeoutExpired):
                _log.warning("a wing process did not stop in time and was killed", extra={"pid": process.pid})
                process.kill()


def _send(ward: Ward, number: signal.Signals) -> None:
    if ward.runs and ward.process is not None:
        ward.process.send_signal(number)

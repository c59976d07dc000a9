"""The parent of `serve --workers N`: starts the workers, serves the coordination tree to them, and restarts them.

    a worker ends during the start            all end, with its exit code; it has printed the reason
    a worker ends later                       it is restarted after a growing pause; if that happens too often, all stop
    the disk fails in the worker with data    all end: an operator has to check the disk
    SIGTERM, SIGINT                           the other workers stop first, then the worker with the data
    SIGHUP                                    forwarded: files of credentials, keys and certificates are read again

It serves no clients, and stores only the tree of the embedded coordinator, through which workers find each other. It
binds the ports that the workers share, without listening, so that no other process gets one while a worker is down.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import sys
from collections import deque
from collections.abc import Mapping
from typing import Final, final

import msgspec

from longhall.coordination.coordinator import TreeCoordinator
from longhall.coordination.embedded import EmbeddedStore, EmbeddedTree
from longhall.coordination.ports import MemberDescription as Described
from longhall.coordination.tree_server import TreeServer, serve_tree
from longhall.errors import LonghallError
from longhall.node.addresses import SHARED_DOORS, Address, parse_address
from longhall.node.lifecycle import (
    DISK_FAILED,
    OK,
    REFUSED,
    about,
    about_directory,
    announce,
    reads_files_again,
    refuse,
    remove,
    write_ready_file,
)
from longhall.node.logs import configure
from longhall.node.settings import Settings
from longhall.node.worker import PROGRAM, Orders
from longhall.node.workers import has_met
from longhall.world.real.disk import DIRECTORY_MODE, DirectoryLock, RealDisk
from longhall.world.real.entropy import RealEntropy
from longhall.world.real.network import RealNetwork

DIRECTORY: Final = "workers"
PAUSE_S_FIRST: Final = 0.1  # Before a restart; doubled each time,
PAUSE_S_MAX: Final = 5.0  # up to this.
ENDS_MAX: Final = 10  # Ends of one worker
ENDS_WINDOW_S: Final = 120.0  # within this time; with more of them all workers stop.
STOP_S_MORE: Final = 300.0  # For a worker to stop, beyond its time to drain: its checkpoint may be large.

_log = logging.getLogger("longhall.workers")


def supervise(settings: Settings) -> int:
    """Run the workers of a node until SIGTERM or SIGINT; returns the exit code."""
    import uvloop

    output = configure(settings.log_level, settings.log_format)
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(_supervise(settings))
    finally:
        output.close()


async def _supervise(settings: Settings) -> int:
    directory = os.path.join(settings.data, DIRECTORY)
    try:
        os.makedirs(settings.data, mode=DIRECTORY_MODE, exist_ok=True)
        os.makedirs(directory, exist_ok=True)
        lock = DirectoryLock(directory)
    except OSError as error:
        return refuse(about_directory(settings, error))
    disk = RealDisk(directory)
    held: list[socket.socket] = []
    try:
        shared = {
            door: str(_hold(parse_address(address), held)) for door, address in _shared_addresses(settings).items()
        }
        settings = msgspec.structs.replace(settings, **shared)
        store = EmbeddedStore(disk)
        keeper = await serve_tree(store, RealNetwork(), RealEntropy())
        try:
            return await Supervisor(settings, store, keeper).run()
        finally:
            keeper.close()
    except OSError as error:
        return refuse(about(settings, error))
    except LonghallError as error:
        return refuse(str(error))
    finally:
        for one in held:
            one.close()
        disk.close()
        lock.release()


def _shared_addresses(settings: Settings) -> dict[str, str]:
    """The addresses that all workers share, by door."""
    return {door: getattr(settings, door) for door in SHARED_DOORS}


def _hold(wanted: Address, held: list[socket.socket]) -> Address:
    """Bind a port for the workers to share; a free one if it is 0."""
    family, kind, protocol, _, address = socket.getaddrinfo(wanted.host, wanted.port, type=socket.SOCK_STREAM)[0]
    # A chosen port is first bound without sharing: otherwise another program that shares it would go unnoticed.
    for shared in (False, True) if wanted.port else (True,):
        one = socket.socket(family, kind, protocol)
        held.append(one)
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, shared)
        try:
            one.bind(address)
        except OSError as error:
            raise OSError(error.errno, f"{error.strerror}: {wanted}") from None
        if not shared:
            held.pop().close()
    return Address(wanted.host, held[-1].getsockname()[1])


@final
class Worker:
    """One worker: its settings, its current process, and when its processes ended."""

    def __init__(self, number: int, settings: Settings) -> None:
        self.number = number
        self.settings = settings
        self.process: asyncio.subprocess.Process | None = None
        self.minding: asyncio.Task[None] | None = None
        self.ends: deque[float] = deque()  # The times of its ends within ENDS_WINDOW_S.

    @property
    def pid(self) -> int:
        return self.process.pid if self.process is not None else 0

    def send(self, number: signal.Signals) -> bool:
        """Send a signal. False if the process is not running."""
        if self.process is None or self.process.returncode is not None:
            return False
        self.process.send_signal(number)
        return True


@final
class Supervisor:
    """The workers of one node from start to stop. Invariant: each worker has at most one process at a time."""

    def __init__(self, settings: Settings, store: EmbeddedStore, keeper: TreeServer) -> None:
        self._settings = settings
        self._keeper = keeper
        self._coordinator = TreeCoordinator(EmbeddedTree(store))
        self._workers = [Worker(number, _settings_of(settings, number)) for number in range(1, settings.workers + 1)]
        self._living: Mapping[int, Described] = {}
        self._announced = False
        self._stopping = False
        self._loop = asyncio.get_running_loop()
        self._ended: asyncio.Future[int] = self._loop.create_future()

    async def run(self) -> int:
        """Supervise the workers until they stop; returns the exit code."""
        for number in (signal.SIGTERM, signal.SIGINT):
            self._loop.add_signal_handler(number, self._end, OK)
        if reads_files_again(self._settings):
            self._loop.add_signal_handler(signal.SIGHUP, self._hand_on, signal.SIGHUP)
        await self._coordinator.start()
        watch = self._coordinator.watch_members(self._members_changed)
        for worker in self._workers:
            worker.minding = self._loop.create_task(self._mind(worker))
        code = await self._ended
        self._stopping = True
        watch.cancel()
        if self._settings.ready_file:
            remove(self._settings.ready_file)
        leader, *others = self._workers
        await self._stop(others)
        await self._stop([leader])
        disk_failed = leader.process is not None and leader.process.returncode == DISK_FAILED
        return DISK_FAILED if disk_failed else code

    def _end(self, code: int) -> None:
        if not self._ended.done():
            self._ended.set_result(code)

    def _hand_on(self, number: signal.Signals) -> None:
        for worker in self._workers:
            worker.send(number)

    # One worker

    async def _mind(self, worker: Worker) -> None:
        """Start a worker, and restart it whenever it ends."""
        pause_s = PAUSE_S_FIRST
        while not self._stopping:
            began_s = self._loop.time()
            try:
                code = await self._live(worker)
            except OSError as error:
                _log.error("a worker could not be started", extra={"of_worker": worker.number, "reason": str(error)})
                code = REFUSED
            if self._stopping:
                return
            if not self._announced or code == DISK_FAILED:
                if code < 0:
                    refuse(f"worker {worker.number} was ended by {_signal_of(code)} while it started")
                self._end(code if code > 0 else REFUSED)
                return
            now_s = self._loop.time()
            worker.ends.append(now_s)
            while worker.ends[0] < now_s - ENDS_WINDOW_S:
                worker.ends.popleft()
            if len(worker.ends) > ENDS_MAX:
                self._end(
                    refuse(f"worker {worker.number} ends again and again, at last {_how(code)}: its log says why")
                )
                return
            pause_s = PAUSE_S_FIRST if now_s - began_s > ENDS_WINDOW_S else min(2 * pause_s, PAUSE_S_MAX)
            told = {"of_worker": worker.number, "pid": worker.pid, "ended": _how(code), "again_in_s": pause_s}
            _log.warning("a worker has ended and is started again", extra=told)
            await asyncio.sleep(pause_s)

    async def _live(self, worker: Worker) -> int:
        """Run one process of a worker; returns its exit code."""
        orders = Orders(
            number=worker.number,
            count=len(self._workers),
            settings=worker.settings,
            keeper_port=self._keeper.port,
            token=self._keeper.token.hex(),
            shared_ports=[parse_address(address).port for address in _shared_addresses(worker.settings).values()],
        )
        command = [sys.executable, "-P", "-m", PROGRAM]
        worker.process = await asyncio.create_subprocess_exec(*command, stdin=asyncio.subprocess.PIPE)
        assert worker.process.stdin is not None
        worker.process.stdin.write(msgspec.json.encode(orders) + b"\n")  # The pipe stays open until this process ends.
        if self._stopping:
            worker.process.terminate()
        if self._announced:
            self._write_ready_file()
        return await worker.process.wait()

    async def _stop(self, workers: list[Worker]) -> None:
        """Stop these workers; kill those that take longer than their time."""
        minding = [worker.minding for worker in workers if worker.minding is not None]
        for worker in workers:
            if not worker.send(signal.SIGTERM) and worker.process is not None and worker.minding is not None:
                worker.minding.cancel()  # The process has ended and must not be restarted.
        await asyncio.wait(minding, timeout=self._settings.drain_ms / 1000 + STOP_S_MORE)
        for worker in workers:
            if worker.send(signal.SIGKILL):
                _log.warning("a worker did not stop in time and was killed", extra={"of_worker": worker.number})
        await asyncio.gather(*minding, return_exceptions=True)

    # All workers

    def _members_changed(self, members: Mapping[int, Described]) -> None:
        self._living = members
        for worker in self._workers:
            if worker.number in members:  # A restarted worker uses the same port: its clients come back there.
                address = members[worker.number].addresses["listens"]
                worker.settings = msgspec.structs.replace(worker.settings, kafka=address)
        all_met = len(members) == len(self._workers) and all(map(has_met, members.values()))
        if not self._announced and all_met and not self._ended.done():
            self._announced = True
            settings = self._settings
            kafka = ", ".join(worker.settings.kafka for worker in self._workers)
            announce(
                msgspec.structs.replace(settings, ready_file=None),
                {"kafka": kafka, **_shared_addresses(settings)},
            )
            self._write_ready_file()

    def _write_ready_file(self) -> None:
        if self._settings.ready_file is None or self._stopping:
            return
        workers = [{"worker": one.number, "pid": one.pid, "kafka": one.settings.kafka} for one in self._workers]
        facts = {
            "kafka": self._workers[0].settings.kafka,
            **_shared_addresses(self._settings),
            "workers": workers,
        }
        write_ready_file(self._settings.ready_file, facts)


def _settings_of(settings: Settings, number: int) -> Settings:
    """The settings of one worker: its Kafka port is that of the first worker plus its number minus one."""
    advertised = settings.advertised_kafka
    return msgspec.structs.replace(
        settings,
        kafka=_counted_on(settings.kafka, number),
        advertised_kafka=_counted_on(advertised, number) if advertised is not None else None,
        ready_file=None,
    )


def _counted_on(address: str, number: int) -> str:
    first = parse_address(address)
    return str(Address(first.host, first.port + number - 1 if first.port else 0))


def _how(code: int) -> str:
    return f"by {_signal_of(code)}" if code < 0 else f"with exit code {code}"


def _signal_of(code: int) -> str:
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"

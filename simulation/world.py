"""Hosts in a simulation, and the world that each of their processes receives.

A host outlives its processes: its platter, its faults and its clock stay. `boot` starts a new process and gives it a
world; `kill` ends it as SIGKILL does, with the page cache intact; `cut_power` ends it and tears what was not synced.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final, TypeVar, final

from longhall.world.ports import Disk, File
from simulation.disk import DiskFailureModel, SimulatedDisk, SimulatedFile
from simulation.loop import Process, SimulatedLoop
from simulation.network import Fabric, SimulatedNetwork
from simulation.platter import Platter
from simulation.trace import Trace

BIRTH_MS: Final = 1_800_000_000_000  # The wall clock when a simulation begins.
JOB_MS: Final = (1.0, 50.0)
COLD_READ_MS: Final = (0.1, 10.0)

Jobs = Mapping[str, Callable[[Disk, dict[str, object]], dict[str, object]]]

_T = TypeVar("_T")


@final
class Simulation:
    """One seed. All randomness comes from streams that are derived from the seed, one for each purpose."""

    def __init__(self, seed: int, share: float = 1.0) -> None:
        self.seed = seed
        self.share = share  # Fraction of a scenario's usual duration.
        self.loop = SimulatedLoop(seed)
        self.trace = Trace(self.loop.time)
        self.fabric = Fabric(self.loop, self.stream("network"), self.trace)
        self._hosts: dict[str, Host] = {}

    def stream(self, name: str) -> random.Random:
        return random.Random(f"{self.seed}/{name}")

    def host(self, name: str) -> Host:
        """The host with this name, made on first use."""
        if name not in self._hosts:
            self._hosts[name] = Host(self, name)
        return self._hosts[name]

    def run(self, coroutine: Coroutine[Any, Any, _T]) -> _T:
        """Run a scenario to its end. Its coroutine belongs to no process, so no crash can end it."""
        asyncio.set_event_loop(self.loop)
        try:
            return self.loop.run_until_complete(coroutine)
        finally:
            asyncio.set_event_loop(None)

    def close(self) -> None:
        """Kill every process, so that nothing of this run affects the next one."""
        for host in self._hosts.values():
            host.kill()
        self.loop.bury()


@final
class Host:
    """A machine: what stays when its process dies.

    It may have side processes with directories of their own, which die with the main process. A side process uses the
    clock, the links and the faults of its machine.
    """

    def __init__(self, simulation: Simulation, name: str, machine: Host | None = None) -> None:
        self.simulation = simulation
        self.name = name
        self.machine: Host = machine or self
        self.side_processes: dict[str, Host] = {}
        self.platter = Platter()
        self.faults: DiskFailureModel = machine.faults if machine is not None else DiskFailureModel()
        self.clock_offset_ms = 0
        self.clock_drift = 0.0  # Seconds gained in each second.
        self._monotonic_ahead_s = 0.0
        self._monotonic_stopped_at: float | None = None
        self.process: Process | None = None
        self.disk: SimulatedDisk | None = None
        self.boots = 0
        self._chance = simulation.stream(f"disk/{name}")

    def boot(self, jobs: Jobs | None = None) -> SimulatedWorld:
        assert self.process is None or not self.process.alive, f"{self.name} is running"
        self.boots += 1
        self.process = Process(self.simulation.loop, f"{self.name}#{self.boots}")
        self.simulation.trace.note("boot", self.process.name)
        return SimulatedWorld(self, self.process, jobs or {})

    def side_process(self, name: str) -> Host:
        """The host of a side process on this machine, made on first use."""
        if name not in self.side_processes:
            self.side_processes[name] = Host(self.simulation, f"{self.name}/{name}", self)
        return self.side_processes[name]

    def end(self) -> None:
        """End the process. What it wrote stays, and side processes go on."""
        self._end("kill", power=False)

    def kill(self) -> None:
        """SIGKILL of the process and its side processes."""
        self.end()
        for side_process in self.side_processes.values():
            side_process.end()

    def cut_power(self) -> None:
        """End the process; of what was not synced a part survives, which the seed chooses."""
        self._end("power-cut", power=True)
        self.platter = self.platter.survivor(self._chance)
        for side_process in self.side_processes.values():
            side_process.cut_power()

    def replace_disk(self) -> None:
        """End the process and replace its disk with an empty one; the same for the side processes."""
        self.end()
        self.platter = Platter()
        for side_process in self.side_processes.values():
            side_process.replace_disk()

    def monotonic_s(self) -> float:
        """The machine's monotonic clock: the loop's time, unless a scenario has stopped or moved it."""
        stopped_at = self._monotonic_stopped_at
        now = self.simulation.loop.time() if stopped_at is None else stopped_at
        return (now + self._monotonic_ahead_s) * (1.0 + self.clock_drift)

    def stop_monotonic(self) -> None:
        """Stop the monotonic clock, as in a virtual machine that is not scheduled; the loop's timers go on."""
        if self._monotonic_stopped_at is None:
            self._monotonic_stopped_at = self.simulation.loop.time()

    def start_monotonic(self, *, catches_up: bool) -> None:
        """Start the monotonic clock again, from where it stopped or from where it would be."""
        if self._monotonic_stopped_at is not None and not catches_up:
            self._monotonic_ahead_s -= self.simulation.loop.time() - self._monotonic_stopped_at
        self._monotonic_stopped_at = None

    def advance_monotonic(self, seconds: float) -> None:
        """Move the monotonic clock ahead, as after a suspended virtual machine."""
        self._monotonic_ahead_s += seconds

    def evict(self) -> None:
        """Evict the page cache, also that of the side processes; all processes go on."""
        self.platter.evict()
        for side_process in self.side_processes.values():
            side_process.evict()

    def disk_for(self, process: Process) -> SimulatedDisk:
        simulation = self.simulation
        self.disk = SimulatedDisk(
            simulation.loop, process, self.platter, self.faults, self._chance, simulation.trace, self.machine.cut_power
        )
        return self.disk

    def _end(self, how: str, *, power: bool) -> None:
        if self.process is None or not self.process.alive:
            return
        self.simulation.trace.note(how, self.process.name)
        self.process.kill()
        if self.disk is not None:
            self.disk.finish_writes()
        self.simulation.fabric.bury(self.process, power=power)


@final
class SimulatedWorld:
    """The World port for one process."""

    def __init__(self, host: Host, process: Process, jobs: Jobs) -> None:
        simulation = host.simulation
        self.process = process
        self.clock = SimulatedClock(host.machine)
        self.disk = host.disk_for(process)
        self.network = self.peers_network = SimulatedNetwork(simulation.fabric, process, host.machine.name)
        self.entropy = SimulatedEntropy(simulation.stream(f"entropy/{process.name}"))
        self.janitor = SimulatedJanitor(self.disk, jobs, simulation.stream(f"janitor/{process.name}"))

    def close(self) -> None:
        """Nothing to release: the process goes on until its tasks end."""


@final
class SimulatedClock:
    """The host's clock: the loop's time with an offset, which a scenario may change at any moment, and a drift."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def wall_ms(self) -> int:
        now_ms = self._host.simulation.loop.time() * 1000
        return BIRTH_MS + self._host.clock_offset_ms + int(now_ms * (1.0 + self._host.clock_drift))

    def monotonic_ms(self) -> int:
        return int(self._host.monotonic_s() * 1000)

    def monotonic_us(self) -> int:
        return int(self._host.monotonic_s() * 1_000_000)


@final
class SimulatedEntropy:
    """Randomness that repeats with the seed."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance

    def bytes(self, size: int) -> bytes:
        return self._chance.randbytes(size)

    def below(self, bound: int) -> int:
        return self._chance.randrange(bound)


@final
class SimulatedJanitor:
    """Background jobs: each runs after a delay, one at a time, in one instant of virtual time."""

    def __init__(self, disk: SimulatedDisk, jobs: Jobs, chance: random.Random) -> None:
        self._disk = disk
        self._jobs = jobs
        self._chance = chance
        self._turn = asyncio.Lock()

    async def run(self, job: str, arguments: dict[str, object]) -> dict[str, object]:
        async with self._turn:
            await asyncio.sleep(self._chance.uniform(*JOB_MS) / 1000)
            return self._jobs[job](self._disk, arguments)

    async def read(self, file: File, position: int, size: int) -> bytes:
        assert isinstance(file, SimulatedFile), "a file of another world"
        held = SimulatedFile(self._disk, file.path, file.inode)  # The owner may close its file during the wait.
        await asyncio.sleep(self._chance.uniform(*COLD_READ_MS) / 1000)
        return held.read_at(position, size)

    async def compute(self, function: Callable[[], _T]) -> _T:
        await asyncio.sleep(0)
        return function()

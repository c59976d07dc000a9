"""Links between hosts, and the connections on them.

A connection is a stream: bytes arrive in order and after the link's delay, split differently from how they were sent. A
cut link delivers nothing until it heals and then everything, as TCP hides loss. A reset ends a connection at once and
loses the bytes under way. Each direction can be cut on its own. A reader that pauses stops its writer through a bounded
window.
"""

from __future__ import annotations

import asyncio
import errno
import random
from collections.abc import Callable
from typing import Final, final

from longhall.world.ports import Listener
from simulation.connection import SimulatedTransport
from simulation.loop import Process, SimulatedLoop
from simulation.trace import Trace

LATENCY_MS: Final = (0.05, 2.0)
LOCAL_NAMES: Final = ("127.0.0.1", "localhost", "0.0.0.0", "::1", "::", "")
FIRST_FREE_PORT: Final = 40_000
GREETING_S: Final = 0.2  # A connection attempt is repeated at this interval, as TCP does.
GREETINGS_MAX: Final = 150


@final
class Fabric:
    """The connections of all hosts. Links are named by (from, to) and are whole unless cut."""

    def __init__(self, loop: SimulatedLoop, chance: random.Random, trace: Trace) -> None:
        self.loop = loop
        self.chance = chance
        self.trace = trace
        self.latency_ms = LATENCY_MS
        self._listeners: dict[tuple[str, int], SimulatedListener] = {}
        self._connections: list[tuple[SimulatedTransport, SimulatedTransport]] = []
        self._cut: set[tuple[str, str]] = set()
        self._next_port = FIRST_FREE_PORT

    def delay_s(self) -> float:
        low, high = self.latency_ms
        return self.chance.uniform(low, high) / 1000

    def cut(self, source: str, target: str) -> None:
        """Deliver nothing from `source` to `target` until healed; the other direction is unaffected."""
        self.trace.note("cut", source, target)
        self._cut.add((source, target))

    def heal(self, source: str, target: str) -> None:
        self.trace.note("heal", source, target)
        self._cut.discard((source, target))
        for pair in self._open_connections():
            for end in pair:
                end.pump()

    def is_cut(self, source: str, target: str) -> bool:
        return (source, target) in self._cut

    def reset(self, host: str, fraction: float = 1.0) -> None:
        """Break this share of the host's connections, as a load balancer or a bad cable does."""
        for pair in self._open_connections():
            if host in (pair[0].host, pair[1].host) and self.chance.random() < fraction:
                self.trace.note("reset", pair[0].host, pair[1].host)
                for end in pair:
                    end.break_off(ConnectionResetError(errno.ECONNRESET, "connection reset"))

    def bury(self, process: Process, *, power: bool) -> None:
        """Remove the listeners of a dead process and tell its peers: at once, or late if its host lost power."""
        for address, listener in list(self._listeners.items()):
            if listener.process is process:
                del self._listeners[address]
        for pair in self._open_connections():
            for end, peer in (pair, pair[::-1]):
                if end.process is process:
                    end.silence()
                    delay_s = self.chance.uniform(0.1, 3.0) if power else self.delay_s()
                    self.loop.call_later(delay_s, peer.break_off, ConnectionResetError(errno.ECONNRESET, "peer died"))

    def listen(self, host: str, port: int, listener: SimulatedListener) -> int:
        if port == 0:
            port = self.free_port()
        if (host, port) in self._listeners:
            raise OSError(errno.EADDRINUSE, f"port {port} of {host} is taken")
        self._listeners[(host, port)] = listener
        return port

    def unlisten(self, listener: SimulatedListener) -> None:
        for address, other in list(self._listeners.items()):
            if other is listener:
                del self._listeners[address]

    def listener(self, host: str, port: int) -> SimulatedListener | None:
        return self._listeners.get((host, port))

    def join(self, near: SimulatedTransport, far: SimulatedTransport) -> None:
        self._connections.append((near, far))
        near.meet(far)
        far.meet(near)

    def free_port(self) -> int:
        self._next_port += 1
        return self._next_port

    def _open_connections(self) -> list[tuple[SimulatedTransport, SimulatedTransport]]:
        self._connections = [pair for pair in self._connections if not (pair[0].lost and pair[1].lost)]
        return self._connections


@final
class SimulatedListener:
    """Accepts connections for one process until closed."""

    def __init__(self, fabric: Fabric, process: Process, factory: Callable[[], asyncio.BaseProtocol]) -> None:
        self.process = process
        self.factory = factory
        self._fabric = fabric

    def close(self) -> None:
        self._fabric.unlisten(self)


@final
class SimulatedNetwork:
    """The Network port of one process on one host. Local names mean this host; other hosts are found by name."""

    def __init__(self, fabric: Fabric, process: Process, host: str) -> None:
        self._fabric = fabric
        self._process = process
        self._host = host

    async def listen(self, factory: Callable[[], asyncio.BaseProtocol], host: str, port: int) -> tuple[Listener, int]:
        listener = SimulatedListener(self._fabric, self._process, factory)
        return listener, self._fabric.listen(self._host, port, listener)

    async def connect(self, factory: Callable[[], asyncio.BaseProtocol], host: str, port: int) -> asyncio.BaseProtocol:
        target = self._host if host in LOCAL_NAMES else host
        fabric = self._fabric
        await asyncio.sleep(fabric.delay_s())
        for _ in range(GREETINGS_MAX):
            if not fabric.is_cut(self._host, target) and not fabric.is_cut(target, self._host):
                break
            await asyncio.sleep(GREETING_S)
        else:
            raise TimeoutError(errno.ETIMEDOUT, f"{target} does not answer")
        listener = fabric.listener(target, port)
        if listener is None or not listener.process.alive:
            fabric.trace.note("refused", self._host, target, port)
            raise ConnectionRefusedError(errno.ECONNREFUSED, f"nobody listens on port {port} of {target}")
        here, there = (self._host, fabric.free_port()), (target, port)
        near = SimulatedTransport(fabric, self._process, here, there)
        far = SimulatedTransport(fabric, listener.process, there, here)
        fabric.join(near, far)
        fabric.trace.note("connected", *here, *there)
        protocol = factory()
        near.begin(protocol)
        fabric.loop.call_later(fabric.delay_s(), listener.process.enter, _accept, listener, far)
        return protocol


def _accept(listener: SimulatedListener, transport: SimulatedTransport) -> None:
    if not transport.is_closing():
        transport.begin(listener.factory())

"""A model of ZooKeeper: a leader's tree, servers that lag behind it, sessions that expire in virtual time.

The guarantees are those of ZooKeeper: commits have one order; a server may lag, but a session never reads behind what
it has seen; ephemeral values end with their session; watches fire once and end with their connection. The seed draws
the rest: latencies, lags, the server that a client connects to, whether a connection breaks before a commit or after
it. One Hypothesis machine runs on this model and on the real ZooKeeper.

The model can also lose all data, or be restored from a backup. It then refuses clients that have seen more than it has,
until they reset their position, as the real ZooKeeper does.
"""

from __future__ import annotations

import contextvars
import random
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, final

from longhall.coordination.coordinator import TreeCoordinator
from longhall.coordination.nodes import Event, Nodes
from longhall.coordination.tree import Fired, Node, Operation
from simulation.loop import Process
from simulation.world import Simulation
from simulation.zookeeper_client import SimulatedTree

SERVERS: Final = 3
SESSION_TIMEOUT_MS: Final = 6000


@final
class ZooKeeperBehaviour:
    """Latencies and failure rates of a simulated ZooKeeper; a scenario may change them at any moment."""

    def __init__(self) -> None:
        self.latency_s = (0.0002, 0.002)  # One way, between a client and its server.
        self.commit_s = (0.001, 0.01)
        self.lag_s = (0.0, 0.05)  # Delay until the other servers have a commit.
        self.lose_before = 0.0  # Probability that the connection breaks before a commit is accepted ...
        self.lose_after = 0.0  # ... and after it, so that the answer is lost.


@final
class SimulatedZooKeeper:
    """The ensemble as a whole. Clients are known by the names of their hosts."""

    def __init__(self, simulation: Simulation, *, servers: int = SERVERS) -> None:
        self.behaviour = ZooKeeperBehaviour()
        self.chance: random.Random = simulation.stream("zookeeper")
        self.trace = simulation.trace
        self.up = True
        self._loop = simulation.loop
        # Events of the ensemble belong to no client's process and survive all of them.
        self._world = contextvars.Context()
        self._tip = Nodes()
        self._servers = [Server() for _ in range(servers)]
        self._sessions: dict[int, ServerSession] = {}
        self._begun = 0
        self._clients: list[SimulatedTree] = []
        self._cut: set[str] = set()
        self._paused: set[str] = set()

    def tree(self, name: str, process: Process | None = None, *, timeout_ms: int = SESSION_TIMEOUT_MS) -> SimulatedTree:
        """A client on a host; it dies with its process."""
        client = SimulatedTree(self, name, process, timeout_ms / 1000)
        self._clients = [other for other in self._clients if not other.dead] + [client]
        return client

    def coordinator(
        self, name: str, process: Process | None = None, *, timeout_ms: int = SESSION_TIMEOUT_MS
    ) -> TreeCoordinator:
        """The coordinator that nodes use, over this model."""
        return TreeCoordinator(self.tree(name, process, timeout_ms=timeout_ms))

    def peek(self, path: str) -> Node | None:
        """The value at a path, for scenarios only: no client can see it at once."""
        return self._tip.get(path)

    # Faults, for scenarios.

    def cut(self, name: str) -> None:
        """Deliver no packets between a host and the ensemble. The client notices when answers are overdue."""
        self.trace.note("zookeeper-cut", name)
        self._cut.add(name)
        for client in self._of(name):
            client.fall_silent()

    def heal(self, name: str) -> None:
        self.trace.note("zookeeper-heal", name)
        self._cut.discard(name)

    def reset(self, name: str) -> None:
        """Break the connections of a host; it may reconnect at once."""
        for client in self._of(name):
            client.drop()

    def pause(self, name: str) -> None:
        """Pause a host as SIGSTOP does: it sends nothing, and what arrives waits until `resume`."""
        self.trace.note("zookeeper-pause", name)
        self._paused.add(name)

    def resume(self, name: str) -> None:
        self.trace.note("zookeeper-resume", name)
        self._paused.discard(name)
        for client in self._of(name):
            client.wake()

    def stop(self) -> None:
        """Lose the majority: no request is served, and no session expires."""
        self.trace.note("zookeeper-stop")
        self.up = False
        for client in self._clients:
            client.drop()

    def start(self) -> None:
        """Elect a new leader, which gives every session its full time again."""
        self.trace.note("zookeeper-start")
        self.up = True
        for session in self._sessions.values():
            session.heard_at = self._loop.time()

    def backup(self) -> Nodes:
        """A backup of the whole tree."""
        return self._tip.copy()

    def restore(self, kept: Nodes) -> None:
        """Restore a backup: values, versions and counters. All sessions end.

        Ephemeral values in the backup stay for one session timeout, since their sessions send no heartbeats.
        """
        self.trace.note("zookeeper-restore", kept.clock)
        self._sessions.clear()
        self._tip = kept.copy()
        self._servers = [Server(kept.copy()) for _ in self._servers]
        for owner in sorted({node.owner for _, node in kept.items() if node.owner}):
            self.later(SESSION_TIMEOUT_MS / 1000, self._end_owner, owner, self._tip)
        for client in self._clients:
            client.drop()

    def forget(self) -> None:
        """Lose all data, as when the servers' disks are emptied."""
        self.restore(Nodes())

    def _end_owner(self, owner: int, tip: Nodes) -> None:
        if tip is self._tip and tip.owned_by(owner):
            tip.end_session(owner)
            self._spread(_Entry(tip.clock, None, owner))

    def expire(self, name: str) -> None:
        """Expire the sessions of a host that is alive."""
        for client in self._of(name):
            session = self._sessions.get(client.session_id)
            if session is not None:
                self._end(session)

    # Calls of clients.

    def now(self) -> float:
        return self._loop.time()

    def later(self, delay_s: float, call: Callable[..., object], *arguments: object) -> None:
        self._loop.call_at(self._loop.time() + delay_s, call, *arguments, context=self._world)

    def draw(self, bounds: tuple[float, float]) -> float:
        return self.chance.uniform(*bounds)

    def accepts(self, seen: int) -> bool:
        """True if no client state is ahead of the tree: a server refuses a client that has seen more commits than it
        has.
        """
        return seen <= self._tip.clock

    def reachable(self, name: str) -> bool:
        return self.up and name not in self._cut

    def paused(self, name: str) -> bool:
        return name in self._paused

    def attach(self, client: SimulatedTree, session_id: int) -> tuple[Server, ServerSession, bool]:
        """Connect to a server; the flag is true if the session goes on, false if it is a new one."""
        session = self._sessions.get(session_id)
        goes_on = session is not None
        if session is None:
            self._begun += 1
            session = ServerSession(self._begun, client, self.now())
            self._sessions[session.number] = session
            self._watch_over(session)
        server = self.chance.choice(self._servers)
        server.catch_up(session.seen)
        session.heard_at = self.now()
        self.trace.note("zookeeper-attach", client.name, session.number, goes_on)
        return server, session, goes_on

    def commit(self, operations: Sequence[Operation], session: ServerSession, server: Server) -> list[int]:
        """Commit at the leader, and then at the server that the client is connected to."""
        versions, _ = self._tip.apply(operations, session.number)
        self.trace.note("zookeeper-commit", self._tip.clock, session.number, *operations)
        self._spread(_Entry(self._tip.clock, operations, session.number))
        server.catch_up(self._tip.clock)
        return versions

    def sync(self, server: Server) -> None:
        server.catch_up(self._tip.clock)

    def end(self, session: ServerSession) -> None:
        """Close a session on request of its client."""
        if session.number in self._sessions:
            self._end(session)

    def alive(self, session: ServerSession) -> bool:
        return session.number in self._sessions

    def _end(self, session: ServerSession) -> None:
        del self._sessions[session.number]
        self._tip.end_session(session.number)
        self.trace.note("zookeeper-end", session.number)
        self._spread(_Entry(self._tip.clock, None, session.number))
        session.client.lose(session.number)

    def _spread(self, entry: _Entry) -> None:
        for server in self._servers:
            server.pending.append(entry)
            self.later(self.draw(self.behaviour.lag_s), server.catch_up, entry.clock)

    def _watch_over(self, session: ServerSession) -> None:
        """Check the heartbeats of a session, and expire it without them."""
        if session.number not in self._sessions:
            return
        client = session.client
        if client.beats(session.number) and self.reachable(client.name) and not self.paused(client.name):
            session.heard_at = self.now()
        elif self.up and self.now() - session.heard_at >= client.timeout_s:
            self._end(session)
            return
        self.later(client.timeout_s / 6, self._watch_over, session)

    def _of(self, name: str) -> list[SimulatedTree]:
        return [client for client in self._clients if client.name == name]


@final
class ServerSession:
    """What the ensemble knows of a session."""

    def __init__(self, number: int, client: SimulatedTree, now: float) -> None:
        self.number = number
        self.client = client
        self.heard_at = now
        self.seen = 0  # A server with fewer commits than this may not serve the session.


@final
class _Entry:
    """One commit; without operations, the end of a session."""

    def __init__(self, clock: int, operations: Sequence[Operation] | None, session: int) -> None:
        self.clock = clock
        self.operations = operations
        self.session = session


@final
class Server:
    """One server: its copy of the tree, and the watches of its clients."""

    def __init__(self, nodes: Nodes | None = None) -> None:
        self.nodes = nodes or Nodes()
        self.pending: deque[_Entry] = deque()
        self._watches: dict[Event, dict[int, tuple[object, Fired]]] = {}
        self._watches_made = 0

    def watch(self, event: Event, connection: object, fired: Fired) -> None:
        self._watches_made += 1
        self._watches.setdefault(event, {})[self._watches_made] = (connection, fired)

    def forget(self, connection: object) -> None:
        """Remove a connection and its watches."""
        for event, watches in list(self._watches.items()):
            left = {number: watch for number, watch in watches.items() if watch[0] is not connection}
            if left:
                self._watches[event] = left
            else:
                del self._watches[event]

    def catch_up(self, clock: int) -> None:
        while self.pending and self.pending[0].clock <= clock:
            entry = self.pending.popleft()
            if entry.operations is None:
                events = self.nodes.end_session(entry.session)
            else:
                _, events = self.nodes.apply(entry.operations, entry.session)
            for event in events:
                for _, fired in self._watches.pop(event, {}).values():
                    fired()

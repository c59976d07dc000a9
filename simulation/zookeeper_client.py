"""A client of the simulated ZooKeeper: the tree port, with connections that break and sessions that expire unnoticed.

It takes the place of kazoo in a real node. It reconnects, keeps the session alive and reports session changes by
itself; none of this happens while the host is paused, and nothing reaches a dead process.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, final

from longhall.coordination.nodes import CHILDREN, DATA
from longhall.coordination.ports import CoordinationError, Expired, OutcomeUnknown, Session
from longhall.coordination.tree import Fired, Node, OnSession, Operation
from simulation.loop import Process

if TYPE_CHECKING:
    from simulation.zookeeper import Server, ServerSession, SimulatedZooKeeper

CONNECT_S: Final = 15.0
RECONNECT_S: Final = (0.05, 0.5)


@final
class Connection:
    """A connection from a client to one server. Requests and answers arrive in order."""

    def __init__(self, server: Server, session: ServerSession) -> None:
        self.server = server
        self.session = session
        self.asked: dict[asyncio.Future[Any], None] = {}  # In the order of the requests.
        self.watches: dict[int, Fired] = {}
        self.watches_made = 0
        self.there_at = 0.0
        self.back_at = 0.0


@final
class SimulatedTree:
    """The tree port of one process: see `coordination.tree.Tree` for the calls.

    The client has at most one connection and one session; after a session expires it opens a new one.
    """

    def __init__(self, ensemble: SimulatedZooKeeper, name: str, process: Process | None, timeout_s: float) -> None:
        self.name = name
        self.timeout_s = timeout_s
        self._ensemble = ensemble
        self._process = process
        self._on_session: Callable[[Session], None] = _nobody
        self._state = Session.CLOSED
        self._session = 0
        self._connection: Connection | None = None
        self._started = False
        self._connected = asyncio.Event()
        self._held: list[tuple[Callable[..., object], tuple[object, ...]]] = []
        self._seen = 0  # The newest commit that this client has seen.
        self._left_at = 0.0

    @property
    def session_id(self) -> int:
        return self._session if self._state is Session.CONNECTED else 0

    @property
    def gone(self) -> bool:
        """True if the client is closed or its process is dead."""
        return not self._started or self.dead

    @property
    def dead(self) -> bool:
        return self._process is not None and not self._process.alive

    async def start(self, on_session: OnSession) -> None:
        assert not self._started, "it has begun"
        self._on_session = on_session
        self._started = True
        self._ensemble.later(self._delay(), self._connect)
        try:
            async with asyncio.timeout(CONNECT_S):
                await self._connected.wait()
        except TimeoutError:
            await self.close()
            raise OutcomeUnknown("nobody answers") from None

    async def close(self) -> None:
        connection = self._connection
        if connection is not None and self._state is Session.CONNECTED:
            try:
                await self._ask(lambda: self._ensemble.end(connection.session))
            except CoordinationError:
                pass  # The session expires after its timeout.
        self._leave()
        self._started = False
        self._connected.clear()
        self._session = 0
        if self._state is not Session.CLOSED:
            self._state = Session.CLOSED
            self._on_session(Session.CLOSED)

    async def make_root(self) -> None:
        """Does nothing: the root always exists."""

    async def get(self, path: str, fired: Fired | None = None) -> Node | None:
        connection = self._connection

        def read() -> Node | None:
            assert connection is not None
            if fired is not None:
                self._watch(connection, (DATA, path), fired)
            return connection.server.nodes.get(path)

        return await self._ask(read)  # type: ignore[no-any-return]

    async def children(self, path: str, fired: Fired | None = None) -> list[str]:
        connection = self._connection

        def read() -> list[str]:
            assert connection is not None
            names = connection.server.nodes.children(path)
            if fired is not None:
                self._watch(connection, (CHILDREN, path), fired)
            return names

        return await self._ask(read)  # type: ignore[no-any-return]

    async def commit(self, *operations: Operation) -> list[int]:
        connection = self._connection

        def write() -> list[int]:
            assert connection is not None
            return self._ensemble.commit(operations, connection.session, connection.server)

        return await self._ask(write, commit=True)  # type: ignore[no-any-return]

    async def sync(self) -> None:
        connection = self._connection

        def catch_up() -> None:
            assert connection is not None
            self._ensemble.sync(connection.server)

        await self._ask(catch_up)

    # Calls of the ensemble and of scenarios.

    def beats(self, session: int) -> bool:
        """True if this session has a connection over which heartbeats arrive."""
        return self._session == session and self._connection is not None and not self.gone

    def lose(self, session: int) -> None:
        """Close the connection of a session that the ensemble has expired."""
        if self._session == session and self._started:
            self._ensemble.later(self._delay(), self._deliver, self._dropped, self._connection)

    def drop(self) -> None:
        """Break the connection; the client notices at once."""
        self._ensemble.later(self._delay(), self._deliver, self._dropped, self._connection)

    def fall_silent(self) -> None:
        """Break the connection silently; the client notices when answers are overdue."""
        delay_s = self._ensemble.draw((0.0, self.timeout_s * 2 / 3))
        self._ensemble.later(delay_s, self._deliver, self._dropped, self._connection)

    def wake(self) -> None:
        """Resume after a pause: everything that has arrived is processed at once."""
        held, self._held = self._held, []
        for call, arguments in held:
            self._deliver(call, *arguments)
        if self._connection is not None and not self._ensemble.alive(self._connection.session):
            self.drop()

    # Requests.

    async def _ask(self, run: Callable[[], Any], *, commit: bool = False) -> Any:
        if not self._started or self._state is Session.CLOSED:
            raise Expired("the session is closed")
        connection = self._connection
        if connection is None or self._state is not Session.CONNECTED:
            raise OutcomeUnknown("there is no connection")
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        connection.asked[answer] = None
        now = self._ensemble.now()
        cost_s = self._ensemble.draw(self._ensemble.behaviour.commit_s) if commit else 0.0
        connection.there_at = max(connection.there_at, now + self._delay() + cost_s)
        self._ensemble.later(connection.there_at - now, self._arrive, connection, answer, run, commit)
        try:
            return await answer
        finally:
            connection.asked.pop(answer, None)

    def _arrive(
        self, connection: Connection, answer: asyncio.Future[Any], run: Callable[[], Any], commit: bool
    ) -> None:
        """A request arrives at the server.

        A connection that the client has given up may still carry a commit, until the session has moved to another
        server.
        """
        ensemble = self._ensemble
        given_up = connection is not self._connection
        moved = given_up and self._connection is not None
        if moved or (given_up and not commit) or not ensemble.reachable(self.name):
            return
        if not ensemble.alive(connection.session):
            self._answer(connection, answer, None, Expired("the session is over"))
            return
        if commit and ensemble.chance.random() < ensemble.behaviour.lose_before:
            self.drop()
            return
        result: Any = None
        failure: CoordinationError | None = None
        try:
            result = run()
        except CoordinationError as refused:
            failure = refused
        if commit and ensemble.chance.random() < ensemble.behaviour.lose_after:
            self.drop()
            return
        connection.session.seen = max(connection.session.seen, connection.server.nodes.clock)
        self._answer(connection, answer, result, failure)

    def _answer(
        self, connection: Connection, answer: asyncio.Future[Any], result: Any, failure: CoordinationError | None
    ) -> None:
        now = self._ensemble.now()
        connection.back_at = max(connection.back_at, now + self._delay())
        self._ensemble.later(connection.back_at - now, self._deliver, self._settle, connection, answer, result, failure)

    def _settle(
        self, connection: Connection, answer: asyncio.Future[Any], result: Any, failure: CoordinationError | None
    ) -> None:
        if connection is not self._connection or answer.done() or not self._ensemble.reachable(self.name):
            return
        self._seen = max(self._seen, connection.session.seen)
        if failure is not None:
            answer.set_exception(failure)
        else:
            answer.set_result(result)

    def _watch(self, connection: Connection, event: tuple[str, str], fired: Fired) -> None:
        connection.watches_made += 1
        number = connection.watches_made
        connection.watches[number] = fired
        connection.server.watch(event, connection, lambda: self._announce(connection, number))

    def _announce(self, connection: Connection, number: int) -> None:
        now = self._ensemble.now()
        connection.back_at = max(connection.back_at, now + self._delay())
        self._ensemble.later(connection.back_at - now, self._deliver, self._fire, connection, number)

    def _fire(self, connection: Connection, number: int) -> None:
        if connection is self._connection and self._ensemble.reachable(self.name):
            fired = connection.watches.pop(number, None)
            if fired is not None:
                fired()

    # The connection.

    def _connect(self) -> None:
        if self.gone or self._connection is not None:
            return
        if not self._ensemble.reachable(self.name) or self._ensemble.paused(self.name):
            self._ensemble.later(self._ensemble.draw(RECONNECT_S), self._connect)
            return
        if not self._ensemble.accepts(self._seen):  # The ensemble has lost data.
            if self._ensemble.now() - self._left_at > self.timeout_s:
                self._seen = 0
            self._ensemble.later(self._ensemble.draw(RECONNECT_S), self._connect)
            return
        server, session, goes_on = self._ensemble.attach(self, self._session)
        self._connection = Connection(server, session)
        self._ensemble.later(self._delay(), self._deliver, self._attached, self._connection, goes_on)

    def _attached(self, connection: Connection, goes_on: bool) -> None:
        if connection is not self._connection or self.gone:
            return
        if self._session and not goes_on:
            self._change(Session.EXPIRED)
        self._session = connection.session.number
        self._connected.set()
        self._change(Session.CONNECTED)

    def _dropped(self, connection: Connection | None) -> None:
        if connection is None or connection is not self._connection:
            return
        self._leave()
        self._left_at = self._ensemble.now()
        if self._state is Session.CONNECTED:
            self._change(Session.SUSPENDED)
        self._ensemble.later(self._ensemble.draw(RECONNECT_S), self._connect)

    def _leave(self) -> None:
        connection, self._connection = self._connection, None
        if connection is None:
            return
        connection.server.forget(connection)
        for answer in list(connection.asked):
            if not answer.done():
                answer.set_exception(OutcomeUnknown("the connection broke"))
        watches, connection.watches = connection.watches, {}
        for fired in watches.values():
            fired()

    def _change(self, session: Session) -> None:
        self._state = session
        self._on_session(session)

    def _deliver(self, call: Callable[..., object], *arguments: object) -> None:
        """Call into the process, unless it is dead or its host is paused."""
        if self._ensemble.paused(self.name):
            self._held.append((call, arguments))
        elif self._process is None:
            call(*arguments)
        else:
            self._process.enter(call, *arguments)

    def _delay(self) -> float:
        return self._ensemble.draw(self._ensemble.behaviour.latency_s)


def _nobody(session: Session) -> None:
    """The default listener: ignores session changes."""

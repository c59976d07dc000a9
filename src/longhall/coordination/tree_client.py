"""The coordination tree as a worker sees it: over a connection to the process that serves it.

The connection is the session. When it breaks, the server ends the session as well, and a new one begins.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, cast, final

from longhall.coordination.coordinator import TreeCoordinator
from longhall.coordination.frames import FIRED, FrameError, FrameReader, Reply, Request, error_of, frame, read_reply
from longhall.coordination.ports import Expired, OutcomeUnknown, Session
from longhall.coordination.tree import Fired, Node, OnSession, Operation
from longhall.coordination.watches import report_failure
from longhall.world.ports import Network

CONNECT_S: Final = 15.0
RECONNECT_S: Final = 0.1


def worker_coordinator(network: Network, port: int, token: bytes) -> TreeCoordinator:
    """The coordinator of a worker of `serve --workers`: over the parent's tree."""
    return TreeCoordinator(WorkerTree(network, port, token))


@final
class WorkerTree:
    """The client of the tree's server. It reconnects after each lost connection."""

    def __init__(self, network: Network, port: int, token: bytes) -> None:
        self._network = network
        self._port = port
        self._token = token
        self._on_session: Callable[[Session], None] = _ignore
        self._link: _Link | None = None
        self._session = 0
        self._task: asyncio.Task[None] | None = None
        self._connected = asyncio.Event()

    @property
    def session_id(self) -> int:
        return self._session

    async def start(self, on_session: OnSession) -> None:
        assert self._task is None, "the session has begun"
        self._on_session = on_session
        self._task = asyncio.get_running_loop().create_task(self._stay_connected(), name="stay connected")
        self._task.add_done_callback(report_failure)
        try:
            async with asyncio.timeout(CONNECT_S):
                await self._connected.wait()
        except TimeoutError:
            await self.close()
            raise OutcomeUnknown("the process that serves the coordination tree does not answer") from None

    async def close(self) -> None:
        if self._task is None:
            return
        self._task.cancel()
        self._task = None
        if self._link is not None:
            try:
                await self._ask("bye")
            except OutcomeUnknown:
                pass  # The session is over anyway.
        if self._link is not None:
            self._link.close()
        self._link = None
        self._session = 0
        self._connected.clear()
        self._on_session(Session.CLOSED)

    async def make_root(self) -> None:
        """Do nothing: the root always exists."""

    async def get(self, path: str, fired: Fired | None = None) -> Node | None:
        return (await self._ask("get", path, fired)).node

    async def children(self, path: str, fired: Fired | None = None) -> list[str]:
        return (await self._ask("children", path, fired)).names

    async def commit(self, *operations: Operation) -> list[int]:
        return (await self._ask("commit", operations=list(operations))).versions

    async def sync(self) -> None:
        """Do nothing: there is only one copy."""

    async def _ask(
        self, verb: str, path: str = "", fired: Fired | None = None, operations: list[Operation] | None = None
    ) -> Reply:
        if self._task is None and verb != "bye":
            raise Expired("the session is closed")
        if self._link is None:
            raise OutcomeUnknown("there is no connection")
        return await self._link.ask(verb, path, fired, operations or [])

    async def _stay_connected(self) -> None:
        while True:
            link = await self._connect()
            if link is None:
                await asyncio.sleep(RECONNECT_S)
                continue
            self._link = link
            self._connected.set()
            self._on_session(Session.CONNECTED)
            await link.lost.wait()
            self._link = None
            self._session = 0
            self._on_session(Session.SUSPENDED)
            self._on_session(Session.EXPIRED)

    async def _connect(self) -> _Link | None:
        try:
            link = await self._network.connect(_Link, "127.0.0.1", self._port)
            assert isinstance(link, _Link)
            self._session = (await link.ask("hello", "", None, [], self._token)).session
        except (OSError, OutcomeUnknown):
            return None
        return link


@final
class _Link(asyncio.Protocol):
    """One connection: numbered requests, their replies, and watches that fire."""

    def __init__(self) -> None:
        self.lost = asyncio.Event()
        self._frames = FrameReader()
        self._asked: dict[int, asyncio.Future[Reply]] = {}
        self._watches: dict[int, Fired] = {}
        self._number = FIRED

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # A uvloop transport has the methods of this class but does not derive from it.
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        try:
            for body in self._frames.feed(data):
                self._take(read_reply(body))
        except FrameError:
            self.close()

    def connection_lost(self, failure: Exception | None) -> None:
        self.lost.set()
        for answer in self._asked.values():
            if not answer.done():
                answer.set_exception(OutcomeUnknown("the connection broke"))
        watches, self._watches = self._watches, {}
        for fired in watches.values():
            fired()

    def close(self) -> None:
        self._transport.close()

    async def ask(
        self, verb: str, path: str, fired: Fired | None, operations: list[Operation], token: bytes = b""
    ) -> Reply:
        if self.lost.is_set():
            raise OutcomeUnknown("the connection broke")
        self._number += 1
        number = self._number
        if fired is not None:
            self._watches[number] = fired
        answer: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self._asked[number] = answer
        self._transport.write(frame(Request(number, verb, path, fired is not None, operations, token)))
        try:
            reply = await answer
        finally:
            del self._asked[number]
        if (failure := error_of(reply)) is not None:
            self._watches.pop(number, None)
            raise failure
        return reply

    def _take(self, reply: Reply) -> None:
        if reply.number == FIRED:
            fired = self._watches.pop(reply.watch, None)
            if fired is not None:
                fired()
            return
        answer = self._asked.get(reply.number)
        if answer is not None and not answer.done():
            answer.set_result(reply)


def _ignore(session: Session) -> None:
    """The callback before `start`: ignores the change."""

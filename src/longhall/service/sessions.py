"""Sessions of client connections with the leader of the hall, in this process or in another one.

    this process leads     the session is opened in its registry; pushes are calls
    another one leads      the session is a stream from it: its first item is empty, the others are lists of pushes
    the stream breaks      the owner is told, and the session is opened again at the next leader

A stream under credit holds back only its own session; the leader closes the session when the stream ends, so the
messages of a client go back to their queues when its process dies.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import Final, Protocol, final

import msgspec

from longhall.broker.leadership import NOBODY, Leadership
from longhall.broker.queues.consumers.registry import ConsumerRegistry
from longhall.broker.queues.consumers.session import PushedMessages, PushSink
from longhall.cluster.rpc.peers import Audience, Peers
from longhall.cluster.rpc.stream import IncomingStream, OutgoingStream
from longhall.errors import Code, LonghallError
from longhall.names import CATALOGUE_SHARD

SESSION: Final = "session"
CREDIT: Final = 64  # Items in progress.
ITEM_BYTES_MAX: Final = 512 * 1024  # Of bodies, unless one message is larger.
UNSENT_MAX: Final = 16  # Pushes that wait for credit; then the session is not writable.
PAUSE_S: Final = 0.1

_encode = msgspec.msgpack.Encoder().encode
_decoder: Final = msgspec.msgpack.Decoder(list[PushedMessages])
_log = logging.getLogger("longhall.service")


class PushReceiver(PushSink, Protocol):
    """The connection of a session: where pushes go, and who opens consumers."""

    def session_opened(self) -> None:
        """The session is open at a leader that knows none of its consumers."""

    def session_lost(self) -> None:
        """The leader is gone; another one may push the same messages again."""


@final
class SessionLink:
    """The session of one connection, until it is closed."""

    def __init__(self, sessions: Sessions, session_id: str, owner: PushReceiver) -> None:
        self.session_id = session_id
        self.is_ready = False
        self._sessions = sessions
        self._owner = owner
        self._task: asyncio.Task[None] | None = None
        self._is_local = False
        self._readable = asyncio.Event()
        if sessions.leads:
            self._open_here()
        else:
            self._task = asyncio.get_running_loop().create_task(self._run(), name="session")

    def close(self) -> None:
        """The connection is gone."""
        if self._task is not None:
            self._task.cancel()
        if self._is_local:
            self._sessions.registry.close(self.session_id)

    def readable(self) -> None:
        """The client reads again."""
        self._readable.set()
        if self._is_local:
            self._sessions.registry.wake(self.session_id)

    def _open_here(self) -> None:
        self._sessions.registry.open(self.session_id, self._owner)
        self._is_local = self.is_ready = True
        self._owner.session_opened()

    async def _run(self) -> None:
        while True:
            if self._sessions.leads:
                self._open_here()
                return
            try:
                await self._follow()
            except (OSError, TimeoutError, LonghallError) as error:
                _log.debug("a session is not open", extra={"reason": str(error)})
            except Exception:
                _log.exception("a session failed and is opened again")
            if self.is_ready:
                self.is_ready = False
                self._owner.session_lost()
            await asyncio.sleep(PAUSE_S)

    async def _follow(self) -> None:
        stream = await self._sessions.open_stream(self.session_id)
        try:
            async for item in stream:
                if not item:
                    self.is_ready = True
                    self._owner.session_opened()
                    continue
                for push in _decoder.decode(item):
                    self._owner.push(push)
                while not self._owner.is_writable:
                    self._readable.clear()
                    await self._readable.wait()
        finally:
            stream.close()


@final
class _StreamSink:
    """The leader's side of a session whose connection is in another process."""

    def __init__(self, registry: ConsumerRegistry, session_id: str, stream: OutgoingStream) -> None:
        self._registry = registry
        self._session_id = session_id
        self._stream = stream
        self._unsent: deque[PushedMessages] = deque()

    @property
    def is_writable(self) -> bool:
        return self._stream.is_open and len(self._unsent) < UNSENT_MAX

    def push(self, push: PushedMessages) -> None:
        self._unsent.append(push)
        self.send()

    def send(self) -> None:
        """Send as far as there is credit."""
        was_full = len(self._unsent) >= UNSENT_MAX
        while self._unsent and self._stream.is_open and self._stream.credit > 0:
            self._stream.send(_encode([self._next()]))
        if was_full and self.is_writable:
            self._registry.wake(self._session_id)

    def _next(self) -> PushedMessages:
        """The next push, or the beginning of a large one."""
        push = self._unsent.popleft()
        size = 0
        for at, delivery in enumerate(push.deliveries):
            size += len(delivery.body)
            if at and size > ITEM_BYTES_MAX:
                self._unsent.appendleft(PushedMessages(push.consumer, push.queue, push.deliveries[at:]))
                return PushedMessages(push.consumer, push.queue, push.deliveries[:at])
        return push


@final
class Sessions:
    """Opens sessions for the connections of this process, and serves those of other processes."""

    def __init__(self, registry: ConsumerRegistry) -> None:
        self.registry = registry
        self._leadership: Leadership | None = None
        self._peers: Peers | None = None

    def join(self, leadership: Leadership, peers: Peers) -> None:
        """Connect to other processes."""
        self._leadership = leadership
        self._peers = peers
        peers.serve_stream(SESSION, self._serve, Audience.GUESTS)

    @property
    def leads(self) -> bool:
        """True if this process leads the hall."""
        return self._leadership is None or self._leadership.leads(CATALOGUE_SHARD)

    def open(self, session_id: str, owner: PushReceiver) -> SessionLink:
        """Open a session for a connection."""
        return SessionLink(self, session_id, owner)

    async def open_stream(self, session_id: str) -> IncomingStream:
        """A stream of pushes from the leader. NOT_LEADER if none is known."""
        assert self._leadership is not None
        assert self._peers is not None
        leader = self._leadership.leader_node(CATALOGUE_SHARD)
        if leader in (NOBODY, self._leadership.node):
            raise LonghallError(Code.NOT_LEADER, "no leader is known")
        return await self._peers.open_stream(leader, SESSION, session_id.encode(), CREDIT)

    def _serve(self, node: int, body: bytes, stream: OutgoingStream) -> None:
        if not self.leads:
            stream.end(LonghallError(Code.NOT_LEADER, "another node leads by now"))
            return
        session_id = body.decode()
        sink = _StreamSink(self.registry, session_id, stream)
        try:
            session = self.registry.open(session_id, sink)
        except LonghallError as error:
            stream.end(error)
            return

        def closed() -> None:
            if self.registry.sessions.get(session_id) is session:
                self.registry.close(session_id)

        stream.watch(sink.send, closed)
        stream.send(b"")

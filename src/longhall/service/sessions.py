"""Sessions of client connections with the leader of the hall, in this process or in another one.

    this process leads     the session is opened in its registry; pushes are calls
    another one leads      the session is a stream from it: its first item is empty, the others are lists of pushes
    the stream breaks      the owner is told, and the session is opened again at the next leader

A stream under credit holds back only its own session; the leader closes the session when the stream ends, so the
messages of a client go back to their queues when its process dies. `placed_consumers` opens the same streams to the
leaders of other replication groups, for the queues that these store.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, Protocol, final

import msgspec

from longhall.broker.leadership import NOBODY, Leadership
from longhall.broker.queues.consumers.registry import ConsumerRegistry
from longhall.broker.queues.consumers.session import MOVED, PushedMessages, PushSink
from longhall.cluster.rpc.peers import Audience, Peers
from longhall.cluster.rpc.stream import IncomingStream, OutgoingStream
from longhall.errors import Code, LonghallError
from longhall.names import CATALOGUE_SHARD

SESSION: Final = "session"
CREDIT: Final = 64  # Items in progress.
ITEM_BYTES_MAX: Final = 512 * 1024  # Of bodies, unless one message is larger.
UNSENT_MAX: Final = 16  # Pushes that wait for credit; then the session is not writable.
PAUSE_S: Final = 0.1
CHANGED_S: Final = 0.5  # The interval of the check for a replaced leader.

_encode = msgspec.msgpack.Encoder().encode
_decoder: Final = msgspec.msgpack.Decoder(list[PushedMessages])
_log = logging.getLogger("longhall.service")


class PushReceiver(PushSink, Protocol):
    """The connection of a session: where pushes go, and who opens consumers."""

    def session_opened(self) -> None:
        """The session is open at a leader that knows none of its consumers."""

    def session_lost(self) -> None:
        """The leader is gone; another one may push the same messages again."""


class ConnectionReceiver(PushReceiver, Protocol):
    """A connection of this process."""

    def push_failed(self, consumer: int, error: LonghallError) -> None:
        """Messages for a consumer cannot be opened, and go back: end the consumer, with the error."""


class PushGate(Protocol):
    """What pushes pass on their way to a connection of this process; fulfilled by `front`."""

    def receiver(self, session_id: str, owner: ConnectionReceiver) -> PushReceiver:
        """What gets the pushes in place of a connection, and passes them on."""


class SessionExtension(Protocol):
    """What a session has beside its link to the leader of the hall; it ends with the session."""

    def close(self) -> None:
        """The connection is gone."""

    def readable(self) -> None:
        """The client reads again."""


def start_of_session(work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
    """Start a task that ends with its session. No caller awaits the task, so its failure is logged."""
    task = asyncio.get_running_loop().create_task(work, name=name)
    task.add_done_callback(_log_failure)
    return task


def _log_failure(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and task.exception() is not None:
        _log.error("a task of a session failed", extra={"task": task.get_name()}, exc_info=task.exception())


@final
class SessionStream:
    """The pushes of one leader after another to one receiver. At most one stream is open at a time."""

    def __init__(
        self,
        open_stream: Callable[[], Awaitable[IncomingStream]],
        leader: Callable[[], int],
        receiver: PushReceiver,
    ) -> None:
        self.is_ready = False
        self._open_stream = open_stream
        self._leader = leader
        self._receiver = receiver
        self._readable = asyncio.Event()

    def readable(self) -> None:
        """The client reads again."""
        self._readable.set()

    async def follow(self) -> None:
        """Open a stream and pass on its pushes until it breaks."""
        try:
            await self._follow()
        except (OSError, TimeoutError, LonghallError) as error:
            _log.debug("a session is not open", extra={"reason": str(error)})
        except Exception:
            _log.exception("a session failed and is opened again")
        if self.is_ready:
            self.is_ready = False
            self._receiver.session_lost()

    async def _follow(self) -> None:
        leader = self._leader()
        stream = await self._open_stream()
        watch = start_of_session(self._watch(stream, leader), "watch a session")
        try:
            async for item in stream:
                if not item:
                    self.is_ready = True
                    self._receiver.session_opened()
                    continue
                for push in _decoder.decode(item):
                    pass_on(push, self._receiver)
                while not self._receiver.is_writable:
                    self._readable.clear()
                    await self._readable.wait()
        finally:
            watch.cancel()
            stream.close()

    async def _watch(self, stream: IncomingStream, leader: int) -> None:
        """End the stream when another node leads: the old leader may be suspended, and would never end it."""
        while True:
            await asyncio.sleep(CHANGED_S)
            if self._leader() != leader:
                stream.close()
                stream.ended(ConnectionError("another node leads"))
                return


@final
class SessionLink:
    """The session of one connection, until it is closed."""

    def __init__(self, sessions: Sessions, session_id: str, owner: PushReceiver) -> None:
        self.session_id = session_id
        self.owner = owner
        self.parts: list[SessionExtension] = []
        self._sessions = sessions
        self._task: asyncio.Task[None] | None = None
        self._is_local = False
        self._stream = SessionStream(lambda: sessions.open_stream(session_id), lambda: sessions.leader, owner)
        if sessions.leads:
            self._open_here()
        else:
            self._task = start_of_session(self._run(), "session")

    @property
    def is_ready(self) -> bool:
        """True if the leader of the hall knows the session."""
        return self._is_local or self._stream.is_ready

    def close(self) -> None:
        """The connection is gone."""
        if self._task is not None:
            self._task.cancel()
        if self._is_local:
            self._sessions.registry.close(self.session_id)
        for part in self.parts:
            part.close()
        self._sessions.closed(self)

    def readable(self) -> None:
        """The client reads again."""
        self._stream.readable()
        if self._is_local:
            self._sessions.registry.wake(self.session_id)
        for part in self.parts:
            part.readable()

    def _open_here(self) -> None:
        self._sessions.registry.open(self.session_id, _LocalSink(self.owner))
        self._is_local = True
        self.owner.session_opened()

    async def _run(self) -> None:
        while not self._sessions.leads:
            await self._stream.follow()
            await asyncio.sleep(PAUSE_S)
        self._open_here()


def pass_on(push: PushedMessages, receiver: PushReceiver) -> None:
    """Pass a push on. A queue that moved to another group has lost its consumers here: they are added again, and those
    that are there already stay.
    """
    if push.consumer == MOVED:
        receiver.session_opened()
    else:
        receiver.push(push)


@final
class _LocalSink:
    """The leader's side of a session whose connection is in this process."""

    def __init__(self, owner: PushReceiver) -> None:
        self._owner = owner

    @property
    def is_writable(self) -> bool:
        return self._owner.is_writable

    def push(self, push: PushedMessages) -> None:
        pass_on(push, self._owner)


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
        self.links: dict[str, SessionLink] = {}  # Of the connections of this process.
        self._leadership: Leadership | None = None
        self._peers: Peers | None = None
        self._gate: PushGate | None = None

    def pass_through(self, gate: PushGate) -> None:
        """Let the pushes to this process's connections pass this gate."""
        self._gate = gate

    def join(self, leadership: Leadership, peers: Peers) -> None:
        """Connect to other processes."""
        self._leadership = leadership
        self._peers = peers
        peers.serve_stream(SESSION, self.serve, Audience.GUESTS)

    @property
    def leads(self) -> bool:
        """True if this process leads the hall."""
        return self._leadership is None or self._leadership.leads(CATALOGUE_SHARD)

    @property
    def leader(self) -> int:
        """The node that leads the hall; NOBODY if none is known."""
        return self._leadership.leader_node(CATALOGUE_SHARD) if self._leadership is not None else NOBODY

    def open(self, session_id: str, owner: ConnectionReceiver) -> SessionLink:
        """Open a session for a connection."""
        receiver: PushReceiver = self._gate.receiver(session_id, owner) if self._gate is not None else owner
        link = self.links[session_id] = SessionLink(self, session_id, receiver)
        return link

    def closed(self, link: SessionLink) -> None:
        """A connection of this process is gone."""
        self.links.pop(link.session_id, None)

    async def open_stream(self, session_id: str) -> IncomingStream:
        """A stream of pushes from the leader. NOT_LEADER if none is known."""
        assert self._leadership is not None
        assert self._peers is not None
        leader = self.leader
        if leader in (NOBODY, self._leadership.node):
            raise LonghallError(Code.NOT_LEADER, "no leader is known")
        return await self._peers.open_stream(leader, SESSION, session_id.encode(), CREDIT)

    def serve(self, node: int, body: bytes, stream: OutgoingStream) -> None:
        """Open a session for a connection of another process; it ends with the stream."""
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
